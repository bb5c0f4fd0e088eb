/** The routes that show a model: its names and schemas, and its examples. */
import { z } from "@hono/zod-openapi";
import { json } from "../openapi/operation.ts";
import { modelOf } from "../request.ts";
import type { Route } from "../route.ts";

const jsonSchema = z.record(z.string(), z.unknown());
const modelSchema = z
  .object({
    name: z.string(),
    tag: z.string(),
    digest: z.string(),
    description: z.string(),
    batch_size: z.int(),
    input_schema: jsonSchema,
    output_schema: jsonSchema,
    part_schema: jsonSchema.optional(),
    demo_output_schema: jsonSchema,
  })
  .openapi("Model");

export const modelRoutes: readonly Route[] = [
  {
    method: "get",
    path: "/",
    answer: (c) => {
      const model = modelOf(c);
      return c.json({
        name: model.name,
        tag: model.tag,
        digest: model.digest,
        description: model.description,
        batch_size: model.batchSize,
        input_schema: model.inputSchema,
        output_schema: model.outputSchema,
        ...(model.partSchema === undefined ? {} : { part_schema: model.partSchema }),
        demo_output_schema: model.demoOutputSchema,
      });
    },
    describe: () => ({
      id: "getModel",
      tag: "Model",
      summary: "The model, and the schemas of its inputs and outputs",
      description:
        "The schemas are JSON Schema 2020-12, each a complete document. Browsers (`Accept: text/html`) are redirected to the page.",
      answers: { 200: json(modelSchema, "The model") },
      fails: [503],
    }),
  },
  {
    method: "get",
    path: "/examples",
    answer: (c) => c.json(modelOf(c).examples),
    describe: ({ schemas, example }) => ({
      id: "getExamples",
      tag: "Model",
      summary: "Inputs to try",
      description: "The example inputs of the model's author. Files are data URIs.",
      answers: {
        200: json(z.array(schemas.input), "The inputs", example === undefined ? {} : { example: [example] }),
      },
      fails: [503],
    }),
  },
];
