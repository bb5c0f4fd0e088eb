/** A subscription to the changes of a prediction. */
import type { Text } from "./large-text.ts";
import type { PartLog } from "./part-log.ts";
import type { PredictionRecord } from "./record.ts";

export interface Watched extends Disposable {
  /** The prediction now; undefined if it no longer exists, or this process is stopping. */
  readonly record: PredictionRecord | undefined;
  /** Outputs so far, as JSON texts by index of the input; empty after the end. */
  readonly outputs: readonly (Text | undefined)[];
  /** Pieces of outputs that the model yields early. Undefined without such pieces, or if the prediction had ended. */
  readonly parts?: PartLog | undefined;
  /** Resolves when the outcome is stored. Clients must not see it before. Undefined if it may be shown at once. */
  readonly written?: () => Promise<void>;
}

export interface Watcher {
  /** Called at each change of the prediction: start, piece of an output, output, log line, end. */
  readonly changed: () => void;
  /** Called once at the start, if this process runs the prediction. */
  started(watched: Watched): void;
}
