/** Defines the schemas of request and response bodies, which are the named components of the OpenAPI document. */
import { z } from "@hono/zod-openapi";
import { type JsonSchema, SchemaNode } from "../../base/schemas/json-schema.ts";
import { namedSchemas } from "../../base/schemas/named-schemas.ts";
import { problemCodes, problemType } from "../problem.ts";
import type { ServedModel } from "../served-model.ts";

const status = z.enum(["pending", "running", "success", "failed"]);
const time = z.iso.datetime();

export const problemSchema = z
  .object({
    type: z
      .enum(problemCodes.map((code) => problemType(code)))
      .openapi({ description: "A stable URI of the kind of problem" }),
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

export type ModelSchemas = ReturnType<typeof modelSchemas>;

/**
 * The schemas of a server with this model. `definitions` has the components from the model's JSON Schemas: `Input`, `Output`, `DemoOutput`,
 * and the schemas in their `$defs`.
 */
export function modelSchemas(
  model: Pick<ServedModel, "inputSchema" | "outputSchema" | "demoOutputSchema" | "maxInputs">,
) {
  const definitions = new Map<string, JsonSchema>();
  const own = (name: string, schema: JsonSchema) => {
    for (const [each, component] of namedSchemas(name, schema, referenceTo)) definitions.set(each, component);
    // A plain `$ref`: with a registered name, zod-openapi adds properties beside the `$ref` at its second use.
    return z.unknown().openapi({ ...referenceTo(name) });
  };
  const input = own("Input", model.inputSchema);
  const output = own("Output", model.outputSchema);
  const demoOutput = own("DemoOutput", model.demoOutputSchema);
  const optional = <T extends z.ZodType>(schema: T, description: string) => schema.optional().openapi({ description });
  const version = z.object({ repository: z.string(), tag: z.string(), digest: z.string() }).openapi("ModelVersion", {
    description: "A build of the model: its generated tag, and `sha256:` with 64 hex digits",
  });
  const fault = z
    .object({ index: z.int(), message: z.string(), pointer: optional(z.string(), "JSON pointer into the body") })
    .openapi("InputFault", { description: "Why the input with this index failed" });
  const onSuccess = "One per input, in input order; only when status is success";
  const fields = {
    status,
    outputs: optional(z.array(output), onSuccess),
    error_message: optional(z.string(), "Only when status is failed"),
    model: optional(version, "The build that runs or ran this; with a queue, absent until the end"),
    created_at: time,
    started_at: time.optional(),
    finished_at: time.optional(),
    errors: optional(z.array(fault), "The inputs that failed; only when status is failed"),
  };
  // A named component, because openapi-generator drops null from the elements of an inline list inside allOf.
  const partial = z.array(z.union([output, z.null()])).openapi("PartialOutputs", {
    description: "Outputs of the inputs that succeeded, null for the others; only when status is failed",
  });
  const prediction = z.object({ prediction_id: z.string(), ...fields, partial_outputs: partial.optional() });
  const shown = z.object({
    demo_id: z.string(),
    ...fields,
    demo_outputs: optional(z.array(demoOutput), onSuccess),
    logs: z.string().openapi({ description: "Logs of the demo so far" }),
  });
  const inputs = z.array(input).min(1);
  const outputs = { outputs: listOf("Output") };
  const demoOutputs = { ...outputs, demo_outputs: listOf("DemoOutput") };
  return {
    definitions,
    input,
    inputs: { prediction: inputs.max(model.maxInputs.prediction), demo: inputs.max(model.maxInputs.demo) },
    records: {
      prediction: prediction.openapi("Prediction", narrowed(outputs)),
      demo: shown.openapi("DemoPrediction", narrowed(demoOutputs)),
    },
  };
}

function listOf(component: string): JsonSchema {
  return { type: "array", items: referenceTo(component) };
}

type Members = Readonly<Record<string, JsonSchema>>;

/**
 * The required fields for each status, as a union (`oneOf`) inside `allOf`. In TypeScript clients, `status` then narrows the type, and other
 * generators merge `allOf` into one class. The fields of a status are in an inner `allOf`, because openapi-generator would else require the fields of
 * all statuses.
 */
function narrowed(outputs: Members): object {
  const time: JsonSchema = { type: "string", format: "date-time" };
  const variant = (status: string, properties: Members) => ({
    properties: { status: { type: "string", const: status } },
    required: ["status", ...Object.keys(properties)],
    // Some validators refuse by default the fields that other members of the union have.
    unevaluatedProperties: true,
    ...(Object.keys(properties).length > 0 && { allOf: [{ type: "object", properties }] }),
  });
  const oneOf = [
    variant("pending", {}),
    variant("running", { started_at: time }),
    variant("success", { finished_at: time, ...outputs }),
    variant("failed", { finished_at: time, error_message: { type: "string" } }),
  ];
  return { allOf: [{ oneOf }] };
}

const description =
  "One input. A file is a part with the file's bytes, or a text with its URL. The elements of a list are parts with the same name. Objects are JSON.";

export function formSchema(input: JsonSchema, example: unknown): JsonSchema {
  const { title = "Input" } = input;
  const { fields } = SchemaNode.of(input);
  const properties = Object.fromEntries([...fields].map(([name, field]) => [name, partSchema(field)]));
  const rest = fields.size > 0 ? { ...input, properties } : { type: "object" };
  // openapi-python-client derives class names from the letters in titles. The title `Input*` keeps the class name `Input`. With another name, its
  // code would be invalid Python for lists: `isinstance(body, list[Input])`.
  return { ...rest, title: `${title}*`, description, ...(example === undefined ? {} : { examples: [example] }) };
}

/** The schema of a form part: a file is a binary part. */
function partSchema({ schema, items, file }: SchemaNode): JsonSchema {
  if (schema.type === "array") return { ...schema, items: partSchema(items) };
  return schema.type === "string" && file !== undefined ? { ...schema, format: "binary" } : schema;
}

export function referenceTo(component: string): JsonSchema {
  return { $ref: `#/components/schemas/${component}` };
}
