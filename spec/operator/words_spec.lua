-- What is known of a command's words before it runs: never more than is certain, never less than could run.
local words = require "moonsand.operator.words"

-- Whether any command found is `git push`, for certain.
local function finds_push(text)
  for _, list in ipairs(words.parse(text).commands) do
    if list[1] and words.basename(list[1]) == "git" and list[2] == "push" then
      return true
    end
  end
  return false
end

describe("a command that is written out", function()
  it("is certain, with the words that bash would see", function()
    for text, expected in pairs {
      ["git status"] = { "git", "status" },
      [ [["git" 'sta'tus  a\ b "c d"]] ] = { "git", "status", "a b", "c d" },
      ["git log # the rest is a comment; rm -rf /"] = { "git", "log" },
      ["git sta\\\ntus"] = { "git", "status" },
      ["  ls\t-l \n"] = { "ls", "-l" },
      [ [[echo "a\"b\\c\d"]] ] = { "echo", 'a"b\\c\\d' },
      ["echo '' \"\""] = { "echo", "", "" },
      ["echo a#b x=1 50% a@b"] = { "echo", "a#b", "x=1", "50%", "a@b" },
    } do
      assert.same(expected, words.parse(text).certain, text)
    end
  end)

  it("is not certain where anything else is in it", function()
    for _, text in ipairs {
      "git status; rm x", "git status && rm x", "git status || rm x", "git status | sh", "git status & rm x",
      "git status\nrm x", "git status > f", "git status < f", "git status 2>&1", "git status <<E\nE",
      "git status <<< x", "git status $(rm x)", "git status `rm x`", "git status $X", 'git status "$X"',
      "git status ${X:-y}", "git status $((1))", "git status *", "git status a?", "git status [ab]",
      "git status ~", "git status a=~", "git status {a,b}", "git status <(rm x)", "git status >(rm x)",
      "PATH=x git status", "A+=x git status", "./git status", "/usr/bin/git status", "bin/git status",
      "bash -c 'git status'", "env git status", "xargs git status", "sudo git status", "nohup git status",
      "time git status", "command git status", "eval git status", "source git", ". git", "exec git status",
      "git() { rm x; }; git status", "function git { rm x; }", "alias git='rm x'", "(git status)", "{ git status; }",
      "if git status; then :; fi", "! git status", "git status 'unclosed", 'git status "unclosed', "git status \\",
      "git status $'a'", 'git status $"a"', "git status \1", "git status \r", "git\194\160status", "", "#", "\n",
      "git status $", "find . -delete", "coproc git status", "$'git' status", "git status !(x)", "trap x EXIT",
    } do
      assert.is_nil(words.parse(text).certain, text)
    end
  end)
end)

describe("a forbidden command", function()
  it("is found however it is written", function()
    for _, text in ipairs {
      "git push", "'git' push", '"git" "push"', "g\\it pu''sh", "g\\\nit push", "$'git' push", "$'\\x67it' push",
      "$'\\147it' p$'\\u0075'sh", "/usr/bin/git push", "command git push", "command -p git push", "env git push",
      "env -i A=1 git push", "env -u X git push", "env -S 'git push'", "sudo -u bob git push", "nohup git push",
      "time git push", "time -p git push", "timeout 5 git push", "timeout -k 1 5 git push", "nice -n 5 git push",
      "exec git push", "exec -a x git push", "builtin command git push", "xargs git push", "setsid -w git push",
      "(git push)", "( (git push) )", "{ git push; }", "ls | git push", "ls |& git push", "git push | cat",
      "true && git push", "false || git push", "ls; git push", "ls & git push", "ls\ngit push", "! git push",
      "if true; then git push; fi", "if git push; then :; fi", "if a; then b; else git push; fi",
      "if a; then b; elif git push; then c; fi", "while git push; do :; done", "until a; do git push; done",
      "for x in a b; do git push; done", "for x do git push; done", "for ((i=0;i<3;i++)); do git push; done",
      "select x in a; do git push; done", "case x in x) git push;; esac", "case x in (a|b) git push ;& c) d;; esac",
      "case git in\n x)\n git push\n;;\nesac", "f() { git push; }; f", "function f { git push; }; f",
      "f() (git push); f", "echo $(git push)", 'echo "$(git push)"', "echo `git push`", 'echo "`git push`"',
      "echo `echo \\`git push\\``", "echo ${x:-$(git push)}", 'echo "${x:-`git push`}"', "echo $(( $(git push) ))",
      "cat <(git push)", "cat > >(git push)", "x=$(git push)", "a=(1 $(git push))", "A=1 B=2 git push",
      ">f git push", "2>&1 git push", "git >f push", "{fd}>f git push", "&>f git push", "<f git push",
      "bash -c 'git push'", "bash -ec 'git push'", "bash -o pipefail -c 'git push'", "sh -c \"git push\"",
      "/bin/bash -c 'git push'", "bash -c \"bash -c 'git push'\"", "env bash -c 'git push'", "eval git push",
      "eval 'git push'", 'eval "git" "push"', "trap 'git push' EXIT", "bash <<E\ngit push\nE", "bash <<< 'git push'",
      "cat <<E\n$(git push)\nE", "cat <<E\n`git push`\nE", "cat <<E; git push\nE", "cat <<E\nE\ngit push",
      "cat <<-E\n\tE\ngit push", "cat <<'a b'\na b\ngit push", "cat <<A <<B\nA\nB\ngit push",
      "find . -exec git push \\;", "find . -execdir git push {} +", "[[ a < b ]] && git push",
      "[[ a =~ (b|c) ]] && git push", "[ a ] && git push", "((1)) && git push", "alias g='git push'",
      "\"$(case x in x) git push;; esac)\"", "# comment\ngit push", "ls # it's\ngit push", "watch git push",
      "echo \\# ; git push", "echo a#b; git push", "su -c 'git push'", "busybox git push",
    } do
      assert.is_true(finds_push(text), text)
    end
  end)

  it("is not found where it is only mentioned", function()
    for _, text in ipairs {
      "echo git push", "echo 'git push'", 'grep "git push" f', "# git push", "ls # git push",
      "git commit -m 'git push'",
      "cat <<E\ngit push\nE", "cat <<'E'\n$(git push)\nE", "cat <<E\n\\$(git push)\nE", "git log push",
      "echo '$(git push)'", "echo \"\\$(git push)\"", "for x in git push; do ls; done", "sudo grep git push",
      "cat <<E | wc\ngit push\nE", "command -v git push", "[[ git == push ]]", "case git in push) ls;; esac",
      "a=(git push)", "x=git; echo push", "grep x <<< 'git push'",
    } do
      assert.is_false(finds_push(text), text)
    end
  end)

  it("is seen as unknown, where it is known at run time only", function()
    for _, text in ipairs { "$x push", "g$x push", "`x` push", "{git,push}", "gi? push", "x=git; $x push",
      "ls | bash" } do
      local unknown = false
      for _, list in ipairs(words.parse(text).commands) do
        unknown = unknown or list[1] == false
      end
      assert.is_true(unknown, text)
    end
  end)
end)

describe("the parser", function()
  it("says when it does not follow", function()
    for _, text in ipairs {
      "echo 'a", 'echo "a', "echo `a", "echo $(a", "echo ${a", "(a", "a)", "if [[ a", "cat <<E\nx", "((1<<2))\nE",
      "coproc x { git push; }", ("bash -c "):rep(3), "a" .. ("$("):rep(40), ("x"):rep(300000), "a\0b",
    } do
      local parsed = words.parse(text)
      assert.is_true(parsed.certain == nil, text:sub(1, 40))
      assert.is_true(not parsed.understood or parsed.commands[#parsed.commands][1] == false
        or text:find("^bash") ~= nil, text:sub(1, 40))
    end
  end)

  it("takes time in proportion to the text", function()
    for _, unit in ipairs {
      "{", "{,", "[", "$(", "${", '"', "`", "\\", "sudo ", "sudo -a ", "env -S x ", "eval ", "find -exec ", "<<E ",
      "((",
      "case x in ", "bash -c '", "x=", "a;", "\n", "xargs -a b ",
    } do
      local before = os.clock()
      words.parse(unit:rep(60000 // #unit))
      assert.is_true(os.clock() - before < 1.5, unit)
    end
  end)

  it("agrees with bash about every simple command that it is certain of", function()
    local seed = 20240611
    local function random(n)
      seed = (seed * 1103515245 + 12345) % 2147483648
      return seed // 65536 % n + 1
    end
    local pieces = {
      "a", "b c", " ", "  ", "'", '"', "\\", "\\ ",
      "#", " #", "\t", "\n", "\\\n", "$", "x=1", "=", "-f", "--x=y", "%", "^",
      "!",
      "ü", "{", "}", "~", ":", ",", "]", "'q r'", '"d e"', "\\\"", "\\'", "@", "+", "/", ".", "''", '""', "0",
      "\\a", "$'x'",
      "*", ";", "&", "|", "<", "(", ")", "`",
    }
    local texts, expected = {}, {}
    local tried = 0
    while #texts < 600 and tried < 60000 do
      tried = tried + 1
      local parts = { "show " }
      for _ = 1, random(7) do
        parts[#parts + 1] = pieces[random(random(8) == 1 and #pieces or #pieces - 9)]
      end
      local text = table.concat(parts)
      local certain = words.parse(text).certain
      if certain and certain[1] == "show" then
        texts[#texts + 1] = text
        expected[#expected + 1] = table.concat(certain, "\1", 2)
      end
    end
    assert.is_true(#texts >= 600)
    -- Each text is run by a bash of its own kind: `bash -c`, which is what moonsand runs.
    local name = os.tmpname()
    local file = assert(io.open(name, "wb"))
    file:write("show() { local IFS=$'\\1'; printf '%s\\0' \"$*\"; }\nexport -f show\n")
    for _, text in ipairs(texts) do
      file:write("( eval '", (text:gsub("'", "'\\''")), "' )\n")
    end
    file:close()
    local pipe <close> = assert(io.popen("cd / && bash " .. name .. " 2>&1", "r"))
    local said = pipe:read("a")
    os.remove(name)
    local position = 0
    for answer in said:gmatch("([^\0]*)\0") do
      position = position + 1
      assert.equal(expected[position], answer, texts[position])
    end
    assert.equal(#texts, position)
  end)
end)
