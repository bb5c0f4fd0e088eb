/** Validates the argument of `defineModel` at run time, for authors without a type checker. */
import { messageOf, SconceError } from "../base/errors.ts";
import type { JsonSchema } from "../base/schemas/json-schema.ts";
import { deviceText } from "./device.ts";
import { maxRepositoryLength, repositoryPattern } from "./name.ts";
import { openAiDeclaration, openAiFaults } from "./openai.ts";
import { keyFix, shown, valueFix } from "./options.ts";
import { paramsFaults } from "./params.ts";
import { partFaults } from "./parts.ts";
import { asynchronousFaults, encodingFaults } from "./schema-faults.ts";
import type { WeightsDeclaration } from "./session.ts";
import { tensorSpec } from "./tensor-spec.ts";
import { wireSchema } from "./wire-schema.ts";
import * as z from "./z.ts";

const count = z.int("must be a whole number").min(1, "must be at least 1").optional();
const file = z
  .string("must be the path of a file in the model's folder")
  .min(1, "must be the path of a file in the model's folder");
const namedFiles = z.record(z.string().regex(/^[A-Za-z_]\w*$/), file).refine((files) => Object.keys(files).length > 0);
const weights = z.custom<WeightsDeclaration>(
  (value) => file.safeParse(value).success || namedFiles.safeParse(value).success,
  'must be the path of a file in the model\'s folder, or several by name, e.g. { detector: "detector.pt", reader: "reader.pt" }',
);
const fn = z.custom((value) => typeof value === "function", "must be a function");
const schema = z.custom((value) => value instanceof z.ZodType, "must be a zod schema, e.g. z.object({ … })");

const tensors = z
  .record(
    z.string().regex(/^[A-Za-z_]\w*$/, "is no name that weights can have: use letters, digits and _"),
    tensorSpec,
    "must be named tensors, e.g. { pixels: float32(64) }",
  )
  .refine((specs) => Object.keys(specs).length > 0, "must name at least one tensor, e.g. { pixels: float32(64) }");

const declaration = z.strictObject(
  {
    name: z
      .string("must be a text")
      .max(maxRepositoryLength, `must have at most ${maxRepositoryLength} characters`)
      .regex(
        repositoryPattern,
        'must be lower-case letters, digits and single separators, e.g. "digits" or "vision/digits"',
      ),
    description: z.string("must be a text").optional(),
    input: schema,
    output: schema,
    part: schema.optional(),
    tensors: z
      .strictObject(
        { inputs: tensors, outputs: tensors, parts: tensors.optional() },
        "must be { inputs: { … }, outputs: { … } }",
      )
      .optional(),
    weights,
    operators: z.array(file, 'must be a list of files, e.g. ["ops.so"]').optional(),
    assets: z.array(file, 'must be a list of files, e.g. ["vocab.txt"]').optional(),
    example: z.unknown().optional(),
    examples: z.array(z.unknown(), "must be a list of inputs").optional(),
    params: z.unknown().optional(),
    setup: fn.optional(),
    teardown: fn.optional(),
    preprocess: fn,
    predict: fn.optional(),
    begin: fn.optional(),
    step: fn.optional(),
    postprocessPart: fn.optional(),
    postprocess: fn,
    demo: z.strictObject({ output: schema, predict: fn }, "must be { output: …, predict: … }").optional(),
    openai: openAiDeclaration.optional(),
    batchSize: count,
    maxQueueDelayMs: z.number("must be a number of milliseconds").min(0, "must be at least 0").optional(),
    latencyTargetMs: z.number("must be a number of milliseconds").min(0.1, "must be at least 0.1").optional(),
    device: deviceText.optional(),
    instances: count,
    threads: count,
    maxInputs: count,
  },
  "defineModel takes one object",
);

/** Faults of a declaration, each with the field and a fix; empty when the declaration is valid. */
export function checkDeclaration(given: unknown): string[] {
  const parsed = declaration.safeParse(given, { reportInput: true });
  if (!parsed.success) return parsed.error.issues.flatMap(faultsOf);
  const { input, output, part, demo, weights, predict, begin, step, openai } = parsed.data;
  if (typeof weights !== "string" && predict === undefined && step === undefined) {
    return ["predict: is missing; weights by name are for predict(batch, sessions) to call"];
  }
  if (begin !== undefined && step === undefined) return ["step: is missing; begin makes the states that step advances"];
  if (step !== undefined && begin === undefined) {
    return ["begin: is missing; write begin(inputs, sessions), which returns an item's state before its first step"];
  }
  if (step !== undefined && predict !== undefined) return ["predict: is not needed; begin and step replace it"];
  if (parsed.data.tensors === undefined && (predict ?? step) !== undefined) {
    return ["tensors: is missing; the weights state their own tensors only, not those of predict or step"];
  }
  const { params } = parsed.data;
  const ofFields = [...partFaults(parsed.data), ...(params === undefined ? [] : paramsFaults(params))];
  if (ofFields.length > 0) return ofFields;
  const schemas = new Map<string, JsonSchema>();
  const faults = Object.entries({ input, output, part, "demo.output": demo?.output }).flatMap(([field, value]) => {
    if (!(value instanceof z.ZodType)) return [];
    const faults = [...asynchronousFaults(value, field), ...(field === "input" ? [] : encodingFaults(value, field))];
    if (faults.length > 0) return faults;
    try {
      schemas.set(field, wireSchema(value, field));
      return [];
    } catch (error) {
      if (error instanceof SconceError) return [messageOf(error)];
      throw error;
    }
  });
  if (openai === undefined || faults.length > 0) return faults;
  return openAiFaults(openai, { inputSchema: schemas.get("input") ?? {}, outputSchema: schemas.get("output") ?? {} });
}

function faultsOf(issue: z.core.$ZodIssue): string[] {
  const field = issue.path.join(".");
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      const place = [...issue.path, key].join(".");
      return `${place}: is not a field of a model; ${keyFix(key, issue.path, declaration)}`;
    });
  }
  const missing = issue.code === "invalid_type" && issue.input === undefined ? "is missing; it " : "";
  if (issue.code === "invalid_value" && issue.input !== undefined) {
    return [`${field}: is ${shown(issue.input)}; ${valueFix(issue.input, issue.values)}`];
  }
  const message = issue.code === "invalid_key" ? (issue.issues[0]?.message ?? issue.message) : issue.message;
  return [`${field || "the model"}: ${missing}${message}`];
}
