/** Presents the model as an MCP tool: its declaration, its arguments as an input, and its output as content. */
import type { AudioContent, CallToolResult, ImageContent, TextContent, Tool } from "@modelcontextprotocol/server";
import { isObject } from "../../../base/json.ts";
import type { JsonSchema } from "../../../base/schemas/json-schema.ts";
import { checkDepth } from "../../../pipeline/inputs/input-decoder.ts";
import type { Problem } from "../../problem.ts";
import type { ServedModel } from "../../served-model.ts";
import type { Failed, Succeeded } from "../waited-predictions.ts";

/** Maximum length of a tool's name. Language models also allow only letters, digits, `_` and `-` in the name. */
const MAX_NAME = 64;
/** The start of a base64 data URI with a picture or a sound. */
const picturesAndSounds = /^data:((image|audio)\/[^;,]+)[^,]*;base64,/;

export class ModelTool {
  readonly declaration: Tool;
  readonly outputSchema: JsonSchema;
  /** Whether the model's input is not an object. The arguments of a tool are an object, so the input is then its member `input`. */
  readonly #isWrapped: boolean;

  constructor({ name, description, inputSchema, outputSchema }: ServedModel) {
    this.#isWrapped = inputSchema.type !== "object";
    this.outputSchema = outputSchema;
    this.declaration = {
      name: name.replace(/[^A-Za-z0-9_-]/g, "_").slice(-MAX_NAME),
      title: name,
      description: description || `Runs the model ${name}.`,
      inputSchema: { ...(this.#isWrapped ? wrapped(inputSchema) : inputSchema), type: "object" },
      outputSchema: { ...outputSchema },
      annotations: { readOnlyHint: true },
    };
  }

  /**
   * Converts the arguments of a call to the model's input.
   * @returns the JSON text of the input
   * @throws SconceError `inputs_invalid` for an input that is nested too deeply
   */
  inputOf(args: unknown = {}): string {
    // Refuses deeply nested arguments: with them, JSON.stringify() would run for seconds before its stack overflows.
    checkDepth(args);
    return JSON.stringify(this.#isWrapped && isObject(args) ? (args.input ?? null) : args);
  }

  result(ended: Succeeded | Failed): CallToolResult {
    if (!ended.ok) return failure(ended.errors[0]?.message ?? ended.message);
    const [output] = ended.outputs;
    return { content: contentOf(output), structuredContent: output };
  }

  /** The result of a call whose arguments do not match the model's schema. */
  refusal({ detail, errors }: Problem): CallToolResult {
    const prefix = this.#isWrapped ? "/input" : "";
    const faults = errors?.map((fault) => {
      const place = fault.pointer.replace(/^\/0/, prefix);
      return place === "" ? fault.detail : `${place}: ${fault.detail}`;
    });
    return failure(faults?.join("\n") ?? detail);
  }
}

function failure(text: string): CallToolResult {
  return { isError: true, content: [{ type: "text", text }] };
}

/** The content of a result: the output as JSON text, then its pictures and sounds. Numbers in the text refer to them. */
function contentOf(output: unknown): (TextContent | ImageContent | AudioContent)[] {
  const media: (ImageContent | AudioContent)[] = [];
  const text = JSON.stringify(output, (_, value) => {
    const [head = "", mimeType, type] = typeof value === "string" ? (picturesAndSounds.exec(value) ?? []) : [];
    if (mimeType === undefined) return value;
    media.push({ type: type === "image" ? "image" : "audio", mimeType, data: value.slice(head.length) });
    return `${mimeType}, see content ${media.length}`;
  });
  return [{ type: "text", text }, ...media];
}

/** The schema of an object with the argument `input`, which has the given schema. */
function wrapped({ $defs, ...input }: JsonSchema): JsonSchema {
  const schema = { properties: { input }, required: ["input"], additionalProperties: false, $defs };
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    key === "$ref" && value === "#" ? "#/properties/input" : value,
  );
}
