/** The list of this browser's runs. */
import type { Entry } from "./history.ts";

interface HistoryPanelProps {
  readonly entries: readonly Entry[];
  readonly shownId: string | undefined;
  readonly onOpen: (entry: Entry) => void;
  readonly onClear: () => void;
}

const words = { success: "Done", failed: "Failed", running: "Running", pending: "Waiting" } as const;

export function HistoryPanel({ entries, shownId, onOpen, onClear }: HistoryPanelProps) {
  if (entries.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="history-title">
      <header class="panel-head">
        <h2 id="history-title">History</h2>
        <button type="button" class="small" onClick={onClear}>
          Clear
        </button>
      </header>
      <ol class="history">
        {entries.map((entry) => (
          <li key={entry.id}>
            <a
              href={`#id=${entry.id}`}
              aria-current={entry.id === shownId ? "true" : undefined}
              onClick={(event) => {
                event.preventDefault();
                onOpen(entry);
              }}
            >
              <span class={`dot ${entry.status}`} />
              <span class="summary">{entry.summary}</span>
              <span class="when">
                {words[entry.status]}{" "}
                <time dateTime={entry.at}>
                  {new Date(entry.at).toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" })}
                </time>
              </span>
            </a>
          </li>
        ))}
      </ol>
      <p class="about">Kept in this browser alone.</p>
    </section>
  );
}
