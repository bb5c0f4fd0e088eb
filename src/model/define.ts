/** `defineModel`: what an author declares, checked when it is declared, with every type inferred from it. */
import { SconceError } from "../errors.ts";
import { checkDeclaration } from "./declaration-check.ts";
import type { Predict, Sessions, WeightsDeclaration } from "./session.ts";
import type { TensorSpecs, TensorsOf } from "./tensor.ts";
import type * as z from "./z.ts";

export type Awaitable<T> = T | Promise<T>;

/**
 * `F`, a function that returns values of the schema `S`. A bare `F` would be type-checked before TypeScript has put the inferred schema in it:
 * a literal in what the author returns then becomes `string` and a tuple an array, which do not fit `z.enum` and `z.tuple`. A conditional type
 * is resolved first.
 */
type Returning<S extends z.ZodType, F> = [S] extends [z.ZodType] ? F : never;

/** What a model's `setup` may use. */
export interface SetupContext {
  /** A file packed under `assets`, by the name it was declared with. */
  asset(name: string): Blob;
}

/** What a demo's `predict` may use. */
export interface DemoContext<Input = unknown, Output = unknown> {
  /** Sends inputs through the model, in the same batches as everyone's; rejects when one of them fails. */
  readonly predict: (inputs: readonly Input[]) => Promise<Output[]>;
  /** Adds a line to the logs of this demo prediction; so does `console`. */
  readonly log: (...values: readonly unknown[]) => void;
  /** Fires when nobody waits for the demo any more: it was canceled, or its time is up. */
  readonly signal: AbortSignal;
}

/** What a demo shows beside the outputs. */
export interface DemoDeclaration<I extends z.ZodType, O extends z.ZodType, D extends z.ZodType> {
  /** One demo output object. */
  readonly output: D;
  /** All inputs of one demo prediction to one output and one demo output each. */
  readonly predict: Returning<
    D,
    (
      inputs: readonly z.output<I>[],
      context: DemoContext<z.output<I>, z.output<O>>,
    ) => Awaitable<{ readonly outputs: readonly z.output<O>[]; readonly demoOutputs: readonly z.output<D>[] }>
  >;
}

/** Settings that an author may declare and an operator may override. */
export interface ModelSettings {
  /** Most items that go through the model together. Default 1. */
  readonly batchSize?: number;
  /** How long, in milliseconds, a ready item may wait for others before a smaller batch is run. Default 0. */
  readonly maxQueueDelayMs?: number;
  /**
   * Milliseconds from a ready item to the end of its batch. With it batches are as large, up to `batchSize`, and wait as long as keeps
   * that; `maxQueueDelayMs` is not used. Default: no target.
   */
  readonly latencyTargetMs?: number;
  /** `auto` (a GPU when there is one), `cpu`, `cuda`, `cuda:N`, several GPUs as in `cuda:0,cuda:1`, or `cuda:all`. Default `auto`. */
  readonly device?: string;
  /** How many copies of the model run side by side on each device, which share the weights, unless a run writes into these. Default 1. */
  readonly instances?: number;
  /** CPU threads of one instance. Default: decided at warm-up. */
  readonly threads?: number;
  /** Most inputs of one prediction. Default: the server's limit. */
  readonly maxInputs?: number;
}

export interface ModelDeclaration<
  I extends z.ZodType,
  O extends z.ZodType,
  In extends TensorSpecs,
  Out extends TensorSpecs,
  D extends z.ZodType,
  W extends WeightsDeclaration,
> extends ModelSettings {
  /** The repository the model is built into: lower-case letters, digits, and single separators. */
  readonly name: string;
  readonly description?: string;
  /** One input object; what crosses the wire is its JSON side. */
  readonly input: I;
  /** One output object; what crosses the wire is its JSON side. */
  readonly output: O;
  /** The tensors of one item, without a batch dimension, named as the weights name them. */
  readonly tensors: { readonly inputs: In; readonly outputs: Out };
  /** An exported program or AOTInductor package (`.pt2`), or TorchScript (`.pt`), relative to the model's folder; or several by name, for `predict` to call. */
  readonly weights: W;
  /** Shared libraries with operators that the weights call, relative to the model's folder; loaded first. */
  readonly operators?: readonly string[];
  /** Files packed with the model, relative to its folder, read with `context.asset(name)` in `setup`. */
  readonly assets?: readonly string[];
  /** One input for warm-up and the docs. A file field may name a file of the model's folder. */
  readonly example?: z.input<I>;
  /** More inputs to try on the page, as `example`. Without `example` the first of these stands for it. */
  readonly examples?: readonly z.input<I>[];
  /** Runs once in each process of a server, before anything else. */
  readonly setup?: (context: SetupContext) => Awaitable<void>;
  /** One input to the tensors of one item. What it throws fails that input alone. */
  readonly preprocess: (input: z.output<I>) => Awaitable<TensorsOf<In>>;
  /**
   * Replaces the forward pass: from the stacked inputs of a batch to its stacked outputs, each with the items as first dimension, by
   * calling methods of the sessions. One batch at a time; what it throws makes the batch run again in halves, so that a bad item fails
   * alone. The session of a single file is called `model`. With `instances` above 1 a module that keeps a state is loaded for each;
   * variables of this file are shared by all of them, but not with `preprocess` and `postprocess`, which run in other processes.
   */
  readonly predict?: (batch: TensorsOf<In>, sessions: Sessions<W>) => Awaitable<TensorsOf<Out>>;
  /** One row of each output tensor to one output. What it throws fails that input alone. */
  readonly postprocess: Returning<
    O,
    (rows: TensorsOf<Out>, context: { readonly input: z.output<I> }) => Awaitable<z.output<O>>
  >;
  /** Default: demo outputs equal the outputs. */
  readonly demo?: DemoDeclaration<I, O, D>;
}

/** A demo whose types are known at run time only. */
export interface ModelDemo {
  readonly output: z.ZodType;
  readonly predict: (
    inputs: readonly unknown[],
    context: DemoContext,
  ) => Awaitable<{ readonly outputs: readonly unknown[]; readonly demoOutputs: readonly unknown[] }>;
}

/** A checked declaration whose types are known at run time only: its schemas say what they are. */
export class Model {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType;
  readonly output: z.ZodType;
  readonly tensors: { readonly inputs: TensorSpecs; readonly outputs: TensorSpecs };
  /** Files by the name of their session. */
  readonly weights: Readonly<Record<string, string>>;
  readonly operators: readonly string[];
  readonly assets: readonly string[];
  readonly example: unknown;
  /** All of them, `example` first. */
  readonly examples: readonly unknown[];
  readonly settings: ModelSettings;
  readonly setup: (context: SetupContext) => Awaitable<void>;
  readonly preprocess: (input: unknown) => Awaitable<TensorsOf<TensorSpecs>>;
  readonly predict: Predict | undefined;
  readonly postprocess: (rows: TensorsOf<TensorSpecs>, context: { readonly input: unknown }) => Awaitable<unknown>;
  readonly demo: ModelDemo | undefined;

  constructor(fields: Omit<Model, never>) {
    this.name = fields.name;
    this.description = fields.description;
    this.input = fields.input;
    this.output = fields.output;
    this.tensors = fields.tensors;
    this.weights = fields.weights;
    this.operators = fields.operators;
    this.assets = fields.assets;
    this.example = fields.example;
    this.examples = fields.examples;
    this.settings = fields.settings;
    this.setup = fields.setup;
    this.preprocess = fields.preprocess;
    this.predict = fields.predict;
    this.postprocess = fields.postprocess;
    this.demo = fields.demo;
  }
}

/**
 * Declares a model. Everything is inferred: `preprocess`'s argument and `postprocess`'s result from the schemas, tensor
 * names and element types from `tensors`.
 *
 * @throws SconceError `model_invalid` that names each wrong field and its fix
 */
export function defineModel<
  I extends z.ZodType,
  O extends z.ZodType,
  const In extends TensorSpecs,
  const Out extends TensorSpecs,
  D extends z.ZodType = O,
  const W extends WeightsDeclaration = string,
>(declaration: ModelDeclaration<I, O, In, Out, D, W>): Model {
  const faults = checkDeclaration(declaration);
  if (faults.length > 0) throw new SconceError("model_invalid", `the model is declared wrongly: ${faults.join("; ")}`);
  const { name, description = "", input, output, tensors, setup, predict, demo } = declaration;
  const examples = [declaration.example, ...(declaration.examples ?? [])].filter((example) => example !== undefined);
  const { operators = [], assets = [] } = declaration;
  const weights: WeightsDeclaration = declaration.weights;
  // Here the inferred types end: past this point the schemas and the engine's checks guarantee what the casts say.
  return new Model({
    name,
    description,
    input,
    output,
    tensors,
    weights: typeof weights === "string" ? { model: weights } : weights,
    operators,
    assets,
    example: examples[0],
    examples,
    settings: settingsOf(declaration),
    setup: (context) => setup?.(context),
    preprocess: (value) => declaration.preprocess(value as z.output<I>),
    predict: predict && ((batch, sessions) => predict(batch as TensorsOf<In>, sessions as Sessions<W>)),
    postprocess: (rows, context) =>
      declaration.postprocess(rows as TensorsOf<Out>, { input: context.input as z.output<I> }),
    demo: demo && {
      output: demo.output,
      predict: (inputs, context) =>
        demo.predict(inputs as z.output<I>[], context as DemoContext<z.output<I>, z.output<O>>),
    },
  });
}

function settingsOf(declared: ModelSettings): ModelSettings {
  const { batchSize, maxQueueDelayMs, latencyTargetMs, device, instances, threads, maxInputs } = declared;
  return Object.fromEntries(
    Object.entries({ batchSize, maxQueueDelayMs, latencyTargetMs, device, instances, threads, maxInputs }).filter(
      ([, v]) => v !== undefined,
    ),
  );
}
