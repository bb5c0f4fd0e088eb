/** `defineModel`: the author's declaration of a model, checked at run time, with inferred types. */
import { SconceError } from "../base/errors.ts";
import { checkDeclaration } from "./declaration-check.ts";
import {
  type CallFacts,
  type HookCaller,
  type HookContext,
  hookContext,
  type InputContext,
  type OpenContext,
  type PartContext,
} from "./hook-context.ts";
import { type ModelSettings, settingsOf } from "./model-settings.ts";
import type { OpenAi, OpenAiDeclaration } from "./openai.ts";
import { paramsOf } from "./params.ts";
import type { Predict, Sessions, StepResult, Steps, WeightsDeclaration } from "./session.ts";
import type { ModelTensorsOf, NamedTensors, TensorSpecs, TensorsOf } from "./tensor.ts";
import type * as z from "./z.ts";

export type Awaitable<T> = T | Promise<T>;

/**
 * `F`, a function that returns values of the schema `S`. The conditional type makes TypeScript infer `S` first. With a
 * bare `F`, a literal in the author's return value widens to `string` and a tuple to an array, which do not fit
 * `z.enum` and `z.tuple`.
 */
type Returning<S extends z.ZodType, F> = [S] extends [z.ZodType] ? F : never;

/** The result of a function that may be an async generator, which yields parts of the output. */
type InParts<Part, Whole> = Awaitable<Whole> | AsyncGenerator<Part, Whole, undefined>;

/** Argument of a model's `setup`. */
export interface SetupContext<Params = unknown> {
  /** A file declared under `assets`, by its declared name. */
  asset(name: string): Blob;
  /** Values of the parameters that `params` declares: defaults, or values from `--param`. */
  readonly params: Params;
}

/** Context of a demo's `predict`. */
export interface DemoContext<Input = unknown, Output = unknown, State = unknown, Params = unknown>
  extends HookContext<State, Params> {
  /** Runs inputs through the model, in batches with other clients' inputs. Rejects if any input fails. */
  readonly predict: (inputs: readonly Input[]) => Promise<Output[]>;
  /** Adds a line to the logs of this demo prediction; `console` does the same. */
  readonly log: (...values: readonly unknown[]) => void;
}

/** A demo: additional outputs for the model's web page. */
export interface DemoDeclaration<I extends z.ZodType, O extends z.ZodType, D extends z.ZodType, S, Params> {
  /** Schema of one demo output. */
  readonly output: D;
  /** Gets all inputs of a demo prediction. Returns one output and one demo output for each input. */
  readonly predict: Returning<
    D,
    (
      inputs: readonly z.output<I>[],
      context: DemoContext<z.output<I>, z.output<O>, S, Params>,
    ) => Awaitable<{ readonly outputs: readonly z.output<O>[]; readonly demoOutputs: readonly z.output<D>[] }>
  >;
}

export interface ModelDeclaration<
  I extends z.ZodType,
  O extends z.ZodType,
  In extends TensorSpecs,
  Out extends TensorSpecs,
  D extends z.ZodType,
  W extends WeightsDeclaration,
  P extends z.ZodType = z.ZodNever,
  Rows extends TensorSpecs = Out,
  S = unknown,
  PS extends z.ZodObject = z.ZodObject,
  Running = unknown,
> extends ModelSettings {
  /** Name of the model's repository: lower-case letters, digits and single separators. */
  readonly name: string;
  readonly description?: string;
  /**
   * Schema of one input. With a codec such as `image()`, clients send the JSON value, and `preprocess` gets the decoded
   * one.
   */
  readonly input: I;
  /**
   * Schema of one output. With a codec such as `image()`, `postprocess` returns the decoded value, and clients get
   * JSON.
   */
  readonly output: O;
  /** Schema of one part of an output. Event streams send parts before the whole output. */
  readonly part?: P;
  /**
   * Tensors of one item, without the batch dimension, by the names that the weights use. `parts` are tensors for a part
   * of the output, which `predict` yields or `step` returns. Default of `parts`: the same as `outputs`. Without
   * `tensors`, `build` reads inputs and outputs from the weights, which are then one exported program or AOTInductor
   * package without `predict`.
   */
  readonly tensors?: { readonly inputs: In; readonly outputs: Out; readonly parts?: Rows };
  /**
   * Path relative to the model's folder: an exported program or AOTInductor package (`.pt2`), or TorchScript (`.pt`).
   * Or several such paths by name, for `predict`.
   */
  readonly weights: W;
  /** Shared libraries with custom operators, relative to the model's folder; loaded before the weights. */
  readonly operators?: readonly string[];
  /** Files to package, relative to the model's folder; `setup` reads them with `context.asset(name)`. */
  readonly assets?: readonly string[];
  /** An input for warm-up and the documentation. A file field may name a file in the model's folder. */
  readonly example?: z.input<I>;
  /** More examples for the web page. The first replaces a missing `example`. */
  readonly examples?: readonly z.input<I>[];
  /**
   * Schema of parameters that operators may set, as with `sconce serve --param threshold=0.5`. Each needs a default.
   */
  readonly params?: PS;
  /**
   * Runs once in each server process, before any other function of the model. The other functions get its result as
   * `context.state`.
   */
  readonly setup?: (context: SetupContext<z.output<PS>>) => Awaitable<S>;
  /** Runs once when a process ends in an orderly way, after all other functions. */
  readonly teardown?: (state: NoInfer<S>) => Awaitable<void>;
  /** Turns one input into the tensors of one item. An error fails only that input. */
  readonly preprocess: (input: z.output<I>, context: HookContext<NoInfer<S>, z.output<PS>>) => Awaitable<TensorsOf<In>>;
  /**
   * Replaces the forward pass: turns a batch's stacked inputs into its stacked outputs by calling methods of the
   * sessions. The first dimension of every tensor is the batch dimension. Each instance runs one batch at a time. After
   * an error the batch runs again in halves, so that only the bad item fails. The session of a single weights file is
   * called `model`. With `instances` above 1, each instance loads its own copy of a stateful module, but all share the
   * variables of this file. In a server, `preprocess` and `postprocess` run in other processes and share no variables
   * with `predict`. `async *predict` yields the stacked rows of a part of each item, for `postprocessPart`, and returns
   * the stacked outputs.
   */
  readonly predict?: (
    batch: ModelTensorsOf<In>,
    sessions: Sessions<W>,
    context: HookContext<NoInfer<S>, z.output<PS>>,
  ) => InParts<[P] extends [z.ZodNever] ? never : TensorsOf<Rows>, TensorsOf<Out>>;
  /**
   * Returns an item's state before its first step. `begin` and `step` replace `predict`. Write `begin` above `step`, so
   * that TypeScript infers the type of states. An error fails only that input.
   */
  readonly begin?: (
    inputs: ModelTensorsOf<In>,
    sessions: Sessions<W>,
    context: HookContext<NoInfer<S>, z.output<PS>>,
  ) => Awaitable<Running>;
  /**
   * Advances all running items by one step, for example by one token each. Returns a result for each state, in order:
   * the item's next state, or the outputs of a finished item, without the batch dimension. Items join and leave between
   * steps; each instance runs at most `batchSize` at once. After an error the step runs again in halves, so that only
   * the bad item fails: a step returns new states and does not change old ones.
   */
  readonly step?: (
    states: readonly NoInfer<Running>[],
    sessions: Sessions<W>,
    context: HookContext<NoInfer<S>, z.output<PS>>,
  ) => Awaitable<readonly StepResult<NoInfer<Running>, TensorsOf<Out>, TensorsOf<Rows>>[]>;
  /**
   * Turns one row of each tensor of a part, which `predict` yielded or `step` returned, into a part of the output.
   * Returns `undefined` if the item has no part this time. An error fails only that input.
   */
  readonly postprocessPart?: Returning<
    P,
    (
      rows: ModelTensorsOf<Rows>,
      context: PartContext<z.output<I>, NoInfer<S>, z.output<PS>>,
    ) => Awaitable<z.output<P> | undefined>
  >;
  /**
   * Turns one row of each output tensor into an output. `async *postprocess` yields parts of the output, and returns the
   * output. An error fails only that input.
   */
  readonly postprocess: Returning<
    O | P,
    (
      rows: ModelTensorsOf<Out>,
      context: InputContext<z.output<I>, NoInfer<S>, z.output<PS>>,
    ) => InParts<z.output<P>, z.output<O>>
  >;
  /** Additional outputs for the web page. Default: demo outputs equal the outputs. */
  readonly demo?: DemoDeclaration<I, O, D, NoInfer<S>, z.output<PS>>;
  /** Fields of inputs and outputs that the OpenAI-compatible routes use. Default: the routes answer 404. */
  readonly openai?: OpenAiDeclaration<I, O, NoInfer<S>, z.output<PS>>;
}

/** An author's demo, without the model's types. */
export interface ModelDemo {
  readonly output: z.ZodType;
  readonly predict: (
    inputs: readonly unknown[],
    context: Pick<DemoContext, "predict" | "log" | "signal">,
  ) => Awaitable<{ readonly outputs: readonly unknown[]; readonly demoOutputs: readonly unknown[] }>;
}

/** Everything that an author declares of a model except its functions. */
export interface ModelFacts {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType;
  readonly output: z.ZodType;
  /**
   * Schema of the pieces that `postprocess` or `postprocessPart` makes before the whole output; undefined without
   * pieces.
   */
  readonly part: z.ZodType | undefined;
  /**
   * Tensors of one item. Empty for a declaration without `tensors`, until `withStated` adds the tensors of the weights.
   */
  readonly tensors: {
    readonly inputs: TensorSpecs;
    readonly outputs: TensorSpecs;
    readonly parts: TensorSpecs;
  };
  /** Paths of the weights files, by session name. */
  readonly weights: Readonly<Record<string, string>>;
  readonly operators: readonly string[];
  readonly assets: readonly string[];
  readonly example: unknown;
  /** All example inputs, with `example` first. */
  readonly examples: readonly unknown[];
  readonly settings: ModelSettings;
  readonly params: z.ZodObject | undefined;
  /** Whether `predict`, or `begin` and `step`, replace the forward pass. */
  readonly hasPredict: boolean;
  readonly demo: Pick<ModelDemo, "output"> | undefined;
  readonly openai: OpenAi | undefined;
}

/**
 * The author's functions, bound to one context. They take `unknown`, because only the author's code knows the model's
 * types.
 */
export interface ModelHooks {
  readonly setup: (context: Omit<SetupContext, "params">) => Awaitable<void>;
  readonly teardown: () => Awaitable<void>;
  readonly preprocess: (input: unknown, caller?: HookCaller) => Awaitable<TensorsOf<TensorSpecs>>;
  /** The author's `predict`, or `begin` and `step`. Undefined for a model that only has a forward pass. */
  readonly predict: Predict | Steps | undefined;
  readonly postprocessPart: ((rows: NamedTensors, call: CallFacts) => Awaitable<unknown>) | undefined;
  /**
   * Turns rows of the output tensors into an output. May return an async generator, which yields parts of the output.
   */
  readonly postprocess: (rows: NamedTensors, call: CallFacts) => Awaitable<unknown>;
  readonly demo: ModelDemo | undefined;
}

const hooksOf = Symbol("hooks of a model");

/** The validated declaration of a model. Nothing changes it: state and parameters belong to the models that it opens. */
export interface Model extends ModelFacts {
  readonly [hooksOf]: (context: OpenContext) => ModelHooks;
}

/** A model with its own parameters, state and device. */
export interface OpenedModel extends Omit<ModelFacts, "demo">, ModelHooks {
  /** Parameters, state and device, which all functions of this opened model share. */
  readonly context: OpenContext;
}

/** Whether a value comes from `defineModel`. */
export function isModel(value: unknown): value is Model {
  return typeof value === "object" && value !== null && hooksOf in value;
}

/**
 * Opens a model: binds its functions to a fresh context.
 * @param given values of parameters; the others keep their defaults
 * @throws SconceError `usage` for a value that `params` does not allow
 */
export function opened(
  { [hooksOf]: hooks, ...facts }: Model,
  given: Readonly<Record<string, unknown>> = {},
): OpenedModel {
  const context: OpenContext = { state: undefined, params: paramsOf(facts.params, given), device: "cpu" };
  return { ...facts, ...hooks(context), context };
}

/**
 * Declares a model and infers its types: the argument of `preprocess` and the result of `postprocess` from the schemas,
 * tensor names and element types from `tensors`.
 * @throws SconceError `model_invalid` naming each wrong field and its fix
 */
export function defineModel<
  I extends z.ZodType,
  O extends z.ZodType,
  const In extends TensorSpecs,
  const Out extends TensorSpecs,
  D extends z.ZodType = O,
  const W extends WeightsDeclaration = string,
  P extends z.ZodType = z.ZodNever,
  const Rows extends TensorSpecs = Out,
  S = undefined,
  // biome-ignore lint/complexity/noBannedTypes: the shape without fields, where `{}` is what zod infers
  PS extends z.ZodObject = z.ZodObject<{}>,
  Running = unknown,
>(declaration: ModelDeclaration<I, O, In, Out, D, W, P, Rows, S, PS, Running>): Model {
  const faults = checkDeclaration(declaration);
  if (faults.length > 0) throw new SconceError("model_invalid", `the model is declared wrongly: ${faults.join("; ")}`);
  const { name, description = "", input, output, part, tensors, setup, teardown, demo } = declaration;
  const { params, preprocess, predict, begin, step, postprocessPart, postprocess } = declaration;
  const examples = [declaration.example, ...(declaration.examples ?? [])].filter((example) => example !== undefined);
  const { operators = [], assets = [] } = declaration;
  const weights: WeightsDeclaration = declaration.weights;
  type Context = PartContext<z.output<I>, S, z.output<PS>>;
  // TypeScript cannot check the casts of the functions. The schemas and the engine check the values at run time.
  const hooks = (opened: OpenContext): ModelHooks => {
    let isSetUp = false;
    const contextOf = (call: CallFacts) => hookContext(opened, call) as Context;
    const contextOfInput = (input: unknown, caller?: HookCaller) => {
      if (caller === undefined) return contextOf({ input });
      // The engine of a model that loads on demand tells its device after `preprocess` of the first inputs.
      if (caller.context?.device !== opened.device) caller.context = contextOf({ input, caller });
      return caller.context as Context;
    };
    return {
      async setup({ asset }) {
        opened.state = await setup?.({ asset, params: opened.params as z.output<PS> });
        isSetUp = true;
      },
      teardown: () => (isSetUp ? teardown?.(opened.state as S) : undefined),
      preprocess: (value, caller) => preprocess(value as z.output<I>, contextOfInput(value, caller)),
      predict: predict
        ? (batch, sessions, caller) =>
            predict(batch as ModelTensorsOf<In>, sessions as Sessions<W>, contextOf({ caller }))
        : begin &&
          step && {
            begin: (inputs, sessions, caller) =>
              begin(inputs as ModelTensorsOf<In>, sessions as Sessions<W>, contextOf({ caller })),
            step: (states, sessions, caller) =>
              step(states as readonly NoInfer<Running>[], sessions as Sessions<W>, contextOf({ caller })),
          },
      postprocessPart:
        postprocessPart && ((rows, call) => postprocessPart(rows as ModelTensorsOf<Rows>, contextOf(call))),
      postprocess: (rows, { input, caller }) => postprocess(rows as ModelTensorsOf<Out>, contextOfInput(input, caller)),
      demo: demo && {
        output: demo.output,
        predict: (inputs, context) =>
          demo.predict(
            inputs as z.output<I>[],
            { ...opened, ...context } as DemoContext<z.output<I>, z.output<O>, S, z.output<PS>>,
          ),
      },
    };
  };
  return Object.freeze<Model>({
    [hooksOf]: hooks,
    name,
    description,
    input,
    output,
    part,
    tensors: tensors === undefined ? noTensors : { ...tensors, parts: tensors.parts ?? tensors.outputs },
    weights: typeof weights === "string" ? { model: weights } : weights,
    operators,
    assets,
    example: examples[0],
    examples,
    settings: settingsOf(declaration),
    params,
    hasPredict: predict !== undefined || begin !== undefined,
    demo: demo && { output: demo.output },
    openai: declaration.openai as OpenAi | undefined,
  });
}

const noTensors = { inputs: {}, outputs: {}, parts: {} };

/** Whether the tensors are known: the author declared them, or `withStated` added them. */
export function hasTensors({ tensors }: Pick<Model, "tensors">): boolean {
  return Object.keys(tensors.inputs).length > 0;
}

/** Adds the tensors and the batch size that the weights state, where the author declared none. */
export function withStated(
  model: Model,
  { inputs, outputs, batchSize }: Pick<Model["tensors"], "inputs" | "outputs"> & { readonly batchSize: number },
): Model {
  const tensors = hasTensors(model) ? model.tensors : { inputs, outputs, parts: outputs };
  return { ...model, tensors, settings: { ...model.settings, batchSize: model.settings.batchSize ?? batchSize } };
}
