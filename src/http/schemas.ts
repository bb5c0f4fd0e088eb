/** The bodies of the HTTP contract as schemas: OpenAPI's named components. */
import { z } from "@hono/zod-openapi";
import type { JsonSchema } from "../model/wire-schema.ts";

const status = z.enum(["pending", "running", "success", "failed"]);
const time = z.iso.datetime();

export const problemSchema = z
  .object({
    type: z
      .string()
      .openapi({ description: "A stable URI of the kind of problem", example: "urn:sconce:problem:inputs_invalid" }),
    title: z.string(),
    status: z.int(),
    detail: z.string().openapi({ description: "What was expected, what was received, and the fix" }),
    errors: z
      .array(
        z.object({ pointer: z.string().openapi({ description: "JSON pointer into the body" }), detail: z.string() }),
      )
      .optional()
      .openapi({ description: "Every fault of a body" }),
  })
  .openapi("Problem", { description: "Problem details (RFC 9457)" });

export const healthSchema = z.object({ status: z.enum(["live", "ready"]) }).openapi("Health");

/** The schemas of one model's server: `Input` and `Output` are the model's own. */
export function modelSchemas(model: {
  readonly inputSchema: JsonSchema;
  readonly outputSchema: JsonSchema;
  readonly demoOutputSchema: JsonSchema;
}) {
  const input = z.unknown().openapi("Input", component(model.inputSchema));
  const output = z.unknown().openapi("Output", component(model.outputSchema));
  const demoOutput = z.unknown().openapi("DemoOutput", component(model.demoOutputSchema));
  const fields = {
    status,
    outputs: z
      .array(output)
      .optional()
      .openapi({ description: "One per input, in input order; only when status is success" }),
    error_message: z.string().optional().openapi({ description: "Only when status is failed" }),
    created_at: time,
    started_at: time.optional(),
    finished_at: time.optional(),
  };
  const faults = {
    errors: z
      .array(z.object({ index: z.int().openapi({ description: "Index of the input" }), message: z.string() }))
      .optional()
      .openapi({ description: "The inputs that failed; only when status is failed" }),
    partial_outputs: z
      .array(z.union([output, z.null()]))
      .optional()
      .openapi({ description: "What succeeded, with null in the places of the others; only when status is failed" }),
  };
  const demo = {
    demo_outputs: z
      .array(demoOutput)
      .optional()
      .openapi({ description: "One per input, in input order; only when status is success" }),
    logs: z.string().openapi({ description: "What the demo wrote so far" }),
  };
  return {
    inputs: z.array(input).min(1),
    prediction: z.object({ prediction_id: z.string(), ...fields, ...faults }).openapi("Prediction"),
    demoPrediction: z.object({ demo_id: z.string(), ...fields, ...demo }).openapi("DemoPrediction"),
    description: z
      .object({
        name: z.string(),
        tag: z.string(),
        digest: z.string(),
        description: z.string(),
        batch_size: z.int(),
        input_schema: z.record(z.string(), z.unknown()),
        output_schema: z.record(z.string(), z.unknown()),
        demo_output_schema: z.record(z.string(), z.unknown()),
      })
      .openapi("Model"),
  };
}

/** OpenAPI 3.1 takes JSON Schema 2020-12 as it is; the metadata of zod-openapi is merged into the component's body. */
function component(schema: JsonSchema): object {
  return { ...schema };
}
