/** A served model, as the routes and the OpenAPI document show it. */
import type { OpenAi } from "../author/openai.ts";
import type { JsonSchema } from "../base/schemas/json-schema.ts";

export interface ServedModel {
  readonly name: string;
  readonly tag: string;
  readonly digest: string;
  readonly description: string;
  readonly batchSize: number;
  readonly maxInputs: number;
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
}
