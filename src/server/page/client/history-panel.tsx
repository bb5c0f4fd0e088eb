/** The list of runs (demo predictions) that this browser started or opened by a link. */
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
              {entry.thumbnail !== undefined && <img class="thumbnail" src={entry.thumbnail} alt="" />}
              <span class="summary">{entry.summary}</span>
              <span class="when">
                {words[entry.status]}{" "}
                <time dateTime={entry.at} title={new Date(entry.at).toLocaleString()}>
                  {timeText(new Date(entry.at))}
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

/** The time of a run of today; the date and time of an earlier run. */
function timeText(at: Date): string {
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday
    ? at.toLocaleTimeString(undefined, { timeStyle: "medium" })
    : at.toLocaleString(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}
