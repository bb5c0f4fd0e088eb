/** The routes of files in outputs: decode the data URI of an output and answer its bytes. */
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { getExtension } from "hono/utils/mime";
import { type DecodedData, decodeDataUrl, isDataUrl } from "../../author/data-url.ts";
import { messageOf } from "../../base/errors.ts";
import { isObject } from "../../base/json.ts";
import { memoryFull } from "../../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { LargeText } from "../../predictions/large-text.ts";
import { listIn } from "../../predictions/outcome-list.ts";
import { hasEnded } from "../../predictions/record.ts";
import type { Watched } from "../../predictions/watched.ts";
import { streamOf } from "../large-answers.ts";
import { type Operation, text } from "../openapi/operation.ts";
import { idOf, modelHeader } from "../openapi/prediction-operations.ts";
import { ProblemError, unknownPrediction } from "../problem.ts";
import { type Family, families, LARGE_ANSWER_LENGTH } from "../record-json.ts";
import { contextOf, modelOf } from "../request.ts";
import type { Route } from "../route.ts";
import type { PredictionRoutes } from "./predictions.ts";

type List = Family["lists"][number];

/** Media types that browsers run as scripts. Files of these types are sent as `text/plain`. The header `nosniff` prevents scripts of other types. */
const scriptType = /script|^(?:application|text)\/(?:wasm|jscript)$/;

/** Headers of every file. The sandbox stops scripts in a file that is an HTML page, and gives the page no origin. */
const fileHeaders = {
  "X-Content-Type-Options": "nosniff",
  "Content-Security-Policy": "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'",
};

/** The routes of the files in outputs and in demo outputs. */
export function outputFileRoutes({ otherFronts, memory }: Pick<PredictionRoutes, "otherFronts" | "memory">): Route[] {
  const file = async (c: Context, family: Family, list: List) => {
    const context = contextOf(c);
    const id = context.ownId(c.req.param(family.idName) ?? "");
    const forwarded = await otherFronts?.forward(id, context);
    if (forwarded !== undefined) return forwarded;
    using watched = await modelOf(c).predictions.watch(family.kind, id, () => {});
    const record = watched?.record;
    if (watched === undefined || record === undefined) throw unknownPrediction();
    context.model = record.model;
    const output = outputOf(watched, list, c.req.param("index") ?? "");
    // Counts the memory of the parsed output and of the decoded file.
    using _charge = memory.add("answers", 2 * output.length);
    return answer(c, output, memory);
  };
  return families.flatMap((family) =>
    family.lists.map((list): Route => {
      const place = `${family.path}/{${family.idName}}/${list}/{index}`;
      return {
        method: "get",
        path: `${place}/{field}`,
        match: `${place.replaceAll(/\{(\w+)\}/g, ":$1")}/*`,
        answer: (c) => file(c, family, list),
        describe: () => operationOfFile(family, list),
      };
    }),
  );
}

function operationOfFile(family: Family, list: List): Operation {
  const isDemo = list === "demo_outputs";
  const bytes = { schema: z.string().openapi({ format: "binary" }) };
  const headers = {
    "Content-Disposition": text("A name for the file", 'inline; filename="crop-0.png"'),
    "Content-Security-Policy": text("Scripts in the file do not run"),
    "X-Content-Type-Options": z.literal("nosniff"),
    ...modelHeader,
  };
  return {
    id: `get${family.name}${isDemo ? "Demo" : ""}OutputFile`,
    tag: family.tag,
    summary: `Read a file in ${isDemo ? "a demo output" : "an output"} as bytes`,
    description: `The bytes and the media type of the data URI in the ${family.noun}, readable as soon as the output exists. If the output itself is a file, the path ends with the index.`,
    params: {
      ...idOf(family),
      index: z.int().min(0).openapi({ description: "Index of the input", example: 0 }),
      field: z.string().openapi({ description: "Path in the output: names and indexes with slashes between them" }),
    },
    answers: {
      // Client generators know the first media type, and ignore `*/*`.
      200: { description: "The file", headers, content: { "application/octet-stream": bytes, "*/*": bytes } },
    },
    fails: [404, 429, 503],
  };
}

function answer(c: Context, output: string, memory: MemoryAccount): Response {
  const context = contextOf(c);
  // The first five segments are "", the kind of prediction, the id, the list and the index. The path is decoded: clients that are generated from the
  // OpenAPI document escape the slashes of a field as `%2F`.
  const fields = context.path.split("/").slice(5).filter(Boolean);
  const { bytes, mediaType, parameters } = decoded(fileIn(output, fields));
  const name = `${fields.at(-1) ?? "output"}-${c.req.param("index")}`.replaceAll(/[^\w.-]/g, "_");
  const extension = getExtension(mediaType);
  const headers = {
    ...fileHeaders,
    "Content-Type": scriptType.test(mediaType) ? "text/plain; charset=utf-8" : `${mediaType}${parameters}`,
    "Content-Disposition": `inline; filename="${name}${extension === undefined ? "" : `.${extension}`}"`,
    "Content-Length": String(bytes.length),
  };
  // HEAD gets no body, because Bun sends no Content-Length with a streamed body.
  if (context.isHead) return new Response(null, { headers });
  if (bytes.length < LARGE_ANSWER_LENGTH) return new Response(bytes, { headers });
  if (!memory.hasRoom("answers", bytes.length)) throw memoryFull();
  context.answerBytes = bytes.length;
  return new Response(
    streamOf(() => new LargeText([bytes]), memory),
    { headers },
  );
}

/** The JSON text of the output with this index. @throws ProblemError 404 if there is none */
function outputOf({ record, outputs }: Watched, list: List, index: string): string {
  if (record === undefined) throw unknownPrediction();
  if (!/^\d+$/.test(index) || Number(index) >= record.count) {
    throw missing(`there is no input ${JSON.stringify(index)}: this has ${record.count}, and the first is 0`);
  }
  const at = Number(index);
  const members = hasEnded(record) ? record.outcome.members : undefined;
  const ended = members && (listIn(members, list, at) ?? listIn(members, `partial_${list}`, at));
  const text = (ended ?? (list === "outputs" ? outputs : []))[at];
  if (text !== undefined && text !== "null") return String(text);
  throw missing(members === undefined ? `input ${index} has no output yet` : `input ${index} failed: it has no output`);
}

/** The data URI at a path in the JSON of an output. @throws ProblemError 404 if there is none */
function fileIn(text: string, fields: readonly string[]): string {
  let value: unknown = JSON.parse(text);
  for (const [i, field] of fields.entries()) {
    if (isObject(value) && Object.hasOwn(value, field)) value = value[field];
    else value = Array.isArray(value) && /^\d+$/.test(field) ? value[Number(field)] : undefined;
    if (value === undefined) throw missing(`the output has no ${fields.slice(0, i + 1).join("/")}`);
  }
  if (typeof value === "string" && isDataUrl(value)) return value;
  throw missing(`${fields.join("/") || "the output"} is not a file`);
}

function decoded(uri: string): DecodedData {
  try {
    return decodeDataUrl(uri, uri.length);
  } catch (error) {
    throw missing(messageOf(error));
  }
}

function missing(detail: string): ProblemError {
  return new ProblemError({ code: "file_not_found", detail });
}
