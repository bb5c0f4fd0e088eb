/** A subscription to the changes of a prediction. */
import type { EventLog } from "./event-log.ts";
import type { PredictionRecord } from "./record.ts";

export interface Watched extends Disposable {
  /** The prediction now; undefined if it no longer exists, or this process is stopping. */
  readonly record: PredictionRecord | undefined;
  /** Outputs and parts in order of arrival. Undefined if the prediction had ended, or no event has come. */
  readonly events?: EventLog | undefined;
  /** Resolves when the outcome is stored. Clients must not see it before. Undefined if it may be shown at once. */
  readonly written?: () => Promise<void>;
}

export interface Watcher {
  /** Called at each change of the prediction: start, piece of an output, output, log line, end. */
  readonly changed: () => void;
  /** Called once at the start, if this process runs the prediction. */
  started(watched: Watched): void;
}
