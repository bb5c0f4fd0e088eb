/**
 * A client that knows only /openapi.json: it makes requests from the document's examples, and validates answers
 * against its schemas.
 */
import Ajv from "ajv/dist/2020";
import { z } from "zod";
import type { Client } from "./client.ts";

const parameter = z.object({
  name: z.string(),
  in: z.enum(["path", "header"]),
  schema: z.object({ example: z.unknown().optional() }),
});
const media = z.object({ schema: z.unknown(), example: z.unknown().optional() });
const response = z.object({
  content: z.record(z.string(), media).default({}),
});
const operation = z.object({
  operationId: z.string(),
  parameters: z.array(parameter).default([]),
  requestBody: z.object({ content: z.record(z.string(), media) }).optional(),
  responses: z.record(z.string(), response),
});
const shape = z.looseObject({
  paths: z.record(z.string(), z.record(z.string(), operation)),
  components: z.object({
    schemas: z.looseObject({ InputForm: z.object({ examples: z.array(z.record(z.string(), z.unknown())) }) }),
  }),
});

interface Asked {
  readonly path: string;
  readonly method: string;
  readonly operation: z.infer<typeof operation>;
  /** Media type of the body; undefined for an operation without a body. */
  readonly mediaType: string | undefined;
}

export class ApiDocument {
  readonly #client: Client;
  readonly #document: z.infer<typeof shape>;
  readonly #ajv = new Ajv({ strict: false, validateFormats: false, validateSchema: false });
  /** Values for path parameters: ids of the predictions that earlier requests created, by parameter name. */
  readonly #ids = new Map<string, string>();

  constructor(client: Client, document: unknown) {
    this.#client = client;
    this.#document = shape.parse(document);
    this.#ajv.addSchema(this.#document, "openapi");
  }

  /** Each operation of the document, once for each media type of its body. */
  get requests(): Asked[] {
    return Object.entries(this.#document.paths).flatMap(([path, operations]) =>
      Object.entries(operations).flatMap(([method, operation]) =>
        Object.keys(operation.requestBody?.content ?? { none: 0 }).map((type) => ({
          path,
          method,
          operation,
          mediaType: operation.requestBody && type,
        })),
      ),
    );
  }

  /** Sends the documented request, with ids of earlier predictions. @returns how the answer differs from the document */
  async faultsOf({ path, method, operation, mediaType }: Asked): Promise<string[]> {
    const headers = new Headers();
    let url = path;
    for (const { name, in: place, schema } of operation.parameters) {
      const value = schema.example ?? this.#ids.get(name);
      if (place === "header" && value !== undefined) headers.set(name, String(value));
      if (place === "path") url = url.replace(`{${name}}`, encodeURIComponent(String(value)));
    }
    const body = this.#bodyOf(operation, mediaType);
    // `fetch` sets the Content-Type of a form, with its boundary.
    if (mediaType !== undefined && typeof body === "string") headers.set("Content-Type", mediaType);
    const answer = await this.#client.fetch(url, { method: method.toUpperCase(), headers, ...(body ? { body } : {}) });
    return this.#check(answer, { path, method, operation, mediaType });
  }

  #bodyOf({ requestBody }: Asked["operation"], mediaType: string | undefined): string | FormData | undefined {
    if (mediaType === undefined) return undefined;
    if (mediaType === "application/json") return JSON.stringify(requestBody?.content[mediaType]?.example);
    const form = new FormData();
    const [fields = {}] = this.#document.components.schemas.InputForm.examples;
    for (const [name, value] of Object.entries(fields)) form.append(name, String(value));
    return form;
  }

  async #check(answer: Response, { path, method, operation }: Asked): Promise<string[]> {
    const { status } = answer;
    const text = await answer.text();
    const documented = operation.responses[status];
    if (status >= 300 || documented === undefined) return [`${status}: ${text}`];
    const [type = ""] = answer.headers.get("content-type")?.split(";") ?? [];
    if (!(type in documented.content)) return [`is ${type}`];
    if (type !== "application/json") return [];
    const value: unknown = JSON.parse(text);
    for (const [name, id] of Object.entries(z.looseObject({}).catch({}).parse(value))) {
      if (name.endsWith("_id")) this.#ids.set(name, String(id));
    }
    const place = ["paths", path, method, "responses", `${status}`, "content", type, "schema"];
    const pointer = place.map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/");
    const validate = this.#ajv.compile({ $ref: `openapi#/${pointer}` });
    return validate(value) ? [] : [this.#ajv.errorsText(validate.errors)];
  }
}
