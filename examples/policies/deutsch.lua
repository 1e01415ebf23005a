-- Meldungen in einer anderen Sprache: every line that moonsand adds, in German, for a model that is
-- spoken to in German.
--
-- Trusts: nothing more than the default does; this script changes words, not permissions. The lines that say how a
-- command ended stay as they are, because programs read them (`markers.parse_exit_status`).

mode = "read-only"

markers.no_output = "(keine Ausgabe)"
markers.stderr = "[Fehlerausgabe]"
markers.truncated = function(facts)
  return ("[Ausgabe gekürzt; vollständig: %s]"):format(facts.path or "(nicht verfügbar)")
end
markers.denied = function(facts)
  return ("[Sandbox: Dateizugriff verweigert im Modus %s]"):format(facts.mode)
end
markers.escalation = "[Sandbox: Erweiterung möglich — genau diesen Befehl einmal wiederholen, mit sandbox_permissions "
  .. "(der engste weitere Modus, der genügt) und justification; der Benutzer wird gefragt]"
markers.runner_failed = function(facts)
  return ("[Sandbox: die Sandbox selbst ist im Modus %s gescheitert — der Befehl lief nicht]"):format(facts.mode)
end
markers.dropped = function(facts)
  return ("[ein Teil der Ausgabe ist nicht mehr im Speicher; vollständig: %s]"):format(facts.path or "(nirgends)")
end
markers.timed_out = function(facts)
  return ("[abgebrochen nach %d ms]"):format(facts.timeout_ms)
end

-- Programs that do not speak English although they are told to.
denial_signatures.landlock = { "permission denied", "keine berechtigung" }
denial_signatures.bwrap = { "read-only file system", "das dateisystem ist nur lesbar" }
