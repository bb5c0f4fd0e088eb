/** The routes by which predictions are created and canceled, as OpenAPI paths. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import { chosenId } from "./chosen-id.ts";
import { referenceTo } from "./component.ts";
import { fails, json, unreadable } from "./documented-answers.ts";
import type { Family } from "./families.ts";
import { creation, idempotencyKey, linked, prefer, sampleKey, text, traced } from "./header-schemas.ts";
import { recordSamples } from "./record-samples.ts";
import type { modelSchemas } from "./schemas.ts";

/** What differs from server to server. */
export interface Described {
  readonly schemas: ReturnType<typeof modelSchemas>;
  /** One input, shown in the docs and sent by their "Execute". */
  readonly example: unknown;
  /** Whether outputs may be links. */
  readonly hasLinks: boolean;
}

const creatingProblems = [
  "not_json",
  "body_unreadable",
  "body_incomplete",
  "origin_refused",
  "body_too_slow",
  "body_too_large",
  "unsupported_media_type",
  "inputs_invalid",
  "prediction_differs",
  "webhook_refused",
  "queue_full",
  ...unreadable,
  "predictions_unwritable",
] as const;

export function creatingRoutes(family: Family, { schemas, example, hasLinks }: Described): RouteConfig[] {
  const { path, kind, idName, name, tag, noun } = family;
  const schema = schemas.records[kind];
  const asked = { ...prefer(hasLinks), ...creation };
  const inputs = { schema: schemas.inputs, ...(example === undefined ? {} : { example: [example] }) };
  const form = { schema: { ...referenceTo("InputForm") } };
  // JSON first: generators that take one of them take that.
  const body = { required: true, content: { "application/json": inputs, "multipart/form-data": form } };
  const made = json(
    schema,
    `The ${noun} as it stands: pending, or ended if the client asked to wait`,
    { examples: recordSamples(family, schemas.samples, ["pending", "success", "failed"]) },
    { Location: text(`The path of the ${noun}`), ...(hasLinks ? linked : {}) },
  );
  const responses = { 200: made, ...fails(...creatingProblems) };
  return [
    {
      method: "post",
      path,
      operationId: `create${name}`,
      tags: [tag],
      summary: `Create a ${noun} from a list of inputs`,
      description: `Answers at once with a ${idName} to read it with, or, with \`Prefer: wait\`, at its end, or, with \`Accept: text/event-stream\`, with the events of stream${name}; a client that leaves before the end of these cancels it.`,
      request: { body, headers: z.object({ ...asked, ...idempotencyKey, ...traced }) },
      responses,
    },
    {
      method: "put",
      path: `${path}/{${idName}}`,
      operationId: `put${name}`,
      tags: [tag],
      summary: `Create a ${noun} once, under an id of your own`,
      description:
        "As POST, but what is sent again makes no second one: the answer is the one that there is, as it stands. The same body is needed.",
      request: {
        body,
        params: z.object({
          [idName]: z
            .string()
            .regex(chosenId)
            .openapi({ description: "Hard to guess", example: `${kind}-${sampleKey}` }),
        }),
        headers: z.object({ ...asked, ...traced }),
      },
      responses,
    },
    {
      method: "post",
      path: `${path}/{${idName}}/cancel`,
      operationId: `cancel${name}`,
      tags: [tag],
      summary: `Cancel a ${noun}`,
      description: "Inputs that wait are not run. What other clients sent is not touched.",
      request: { params: idOf(family), headers: z.object(traced) },
      responses: {
        200: json(schema, `The ${noun} as it now stands; one that had ended stays as it is`, {
          examples: recordSamples(family, schemas.samples, ["canceled", "success"]),
        }),
        ...fails("origin_refused", "prediction_not_found", "queue_full", ...unreadable, "predictions_unwritable"),
      },
    },
  ];
}

/** The parameter of the path of a prediction. */
export function idOf({ idName, path }: Family) {
  return z.object({ [idName]: z.string().openapi({ description: `As POST ${path} gave it` }) });
}
