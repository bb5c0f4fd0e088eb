/** The names that a front serves, and the model of each name, as routes see them. */
import type { OpenAi } from "../author/openai.ts";
import type { ModelState, Unready } from "../base/labels.ts";
import type { JsonSchema } from "../base/schemas/json-schema.ts";
import type { InputDecoder } from "../pipeline/inputs/input-decoder.ts";
import type { Predictions } from "../predictions/predictions.ts";
import type { RequestMetrics } from "./metrics.ts";
import type { ProblemError } from "./problem.ts";

/** A model that can answer. A reload of its name makes a new one. */
export interface ServedModel {
  readonly name: string;
  readonly tag: string;
  readonly digest: string;
  readonly description: string;
  readonly batchSize: number;
  readonly maxInputs: Readonly<Record<"prediction" | "demo", number>>;
  readonly inputSchema: JsonSchema;
  readonly outputSchema: JsonSchema;
  /** Schema of the parts of an output, which the model yields before the whole output; undefined if it yields none. */
  readonly partSchema?: JsonSchema | undefined;
  readonly demoOutputSchema: JsonSchema;
  readonly examples: readonly unknown[];
  /** Time when the model was packaged, in seconds since 1970; 0 if unknown. */
  readonly createdS: number;
  readonly openai: OpenAi;
  /**
   * An example input for the OpenAPI document. Its large pictures are shrunk, and a short text replaces other large files, to keep the document
   * short.
   */
  readonly shortExample: unknown;
  readonly predictions: Predictions;
  readonly metrics: RequestMetrics;
  readonly decoder: Pick<InputDecoder, "expected">;
  /** Whether a client has unloaded the model. */
  readonly isUnloadedByClient: () => boolean;
}

/** Loads a model into memory, and unloads it. */
export interface ModelMoves {
  load(): Promise<void>;
  unload(): Promise<void>;
}

export interface ServedName {
  /** Name in paths, `/models/NAME`. */
  readonly name: string;
  readonly tag: string;
  readonly digest: string;
  readonly state: ModelState;
  /** Why the model could not be opened or loaded; undefined without an error. */
  readonly reason: string | undefined;
  readonly metrics: RequestMetrics;
  /** Undefined from the time on at which requests reach the model, or get its fault. */
  readonly pending: "starting" | "restarting" | undefined;
  /** Why the model is not ready; undefined if it is ready. */
  readonly unready: Unready | undefined;
  /** Undefined if the model stays loaded as long as the server runs. */
  readonly moves: ModelMoves | undefined;
  /** The model; the error of all requests for it if it cannot answer. */
  readonly model: ServedModel | ProblemError;
}

export interface ServedNames {
  /** All names. The first one answers paths without a name. */
  readonly list: readonly ServedName[];
  /** Finds a name by its text in a path, such as `digits` or `digits:v1`. */
  named(text: string): ServedName | undefined;
}
