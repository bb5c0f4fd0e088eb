/** Runs a packaged model in this process for one prediction. */
import { version } from "../../../../package.json";
import type { OpenedModel } from "../../../author/define.ts";
import { SconceError } from "../../../base/errors.ts";
import { withoutUnions } from "../../../base/schemas/zod-issues.ts";
import { slowStep } from "../../../base/slow-step.ts";
import { AddressGuard } from "../../../machine/network/address-guard.ts";
import { openPackaged } from "../../../package/code/load.ts";
import type { PackagedModel } from "../../../package/store/packaged-model.ts";
import { Fetcher } from "../../../pipeline/fetcher.ts";
import { ItemFlow } from "../../../pipeline/item-flow.ts";
import type { PartsReceiver } from "../../../pipeline/item-pipeline.ts";
import { wholeText } from "../../../pipeline/output-encoder.ts";
import { predictAll } from "../../../pipeline/predict-all.ts";
import { runDemo } from "../../../pipeline/run-demo.ts";
import { type RunningModel, setUp, tearDown } from "../../../pipeline/set-up.ts";
import { fixedLimits } from "../../../server/config.ts";

export interface LocalModelOptions {
  readonly device: string | undefined;
  readonly threads: number | undefined;
  /** Whether to allow batches, for a demo. A single prediction needs no warm-up of batches. */
  readonly batches: boolean;
}

const noSignal = new AbortController().signal;

export class LocalModel implements AsyncDisposable {
  readonly #packaged: PackagedModel;
  readonly #model: OpenedModel;
  readonly #fetcher: Fetcher;
  readonly #options: LocalModelOptions;
  #settingUp: Promise<RunningModel> | undefined;

  private constructor(packaged: PackagedModel, model: OpenedModel, options: LocalModelOptions) {
    this.#packaged = packaged;
    this.#model = model;
    this.#options = options;
    this.#fetcher = new Fetcher({
      // Private addresses are allowed, because the user could fetch them without sconce too.
      guard: new AddressGuard({ allowPrivate: true }),
      timeoutMs: 1000 * fixedLimits.fetchTimeout,
      maxBytes: Number.MAX_SAFE_INTEGER,
      userAgent: `sconce/${version}`,
    });
  }

  /**
   * Loads the model's code. The weights are loaded at the first use.
   * @throws SconceError `model_invalid`
   */
  static async load(packaged: PackagedModel, options: LocalModelOptions): Promise<LocalModel> {
    const model = await openPackaged(packaged);
    return new LocalModel(packaged, model, options);
  }

  /**
   * Decodes the input with the model's schema.
   * @throws SconceError `usage` naming the faults
   */
  decode(input: unknown): unknown {
    const decoded = this.#model.input.safeParse(input);
    if (decoded.success) return decoded.data;
    const faults = withoutUnions(decoded.error.issues).map(
      ({ path, message }) => `${path.join(".") || "the input"}: ${message}`,
    );
    throw new SconceError("usage", faults.join("; "));
  }

  /**
   * Runs the model on one input.
   * @param input the input, decoded
   * @param parts gets the parts of the output as they come
   * @returns the output as a JSON value
   * @throws SconceError of the failed step
   */
  async predict(input: unknown, parts: PartsReceiver): Promise<unknown> {
    const { engine, pipeline } = await this.#running();
    const predicting = predictAll(new ItemFlow(engine, pipeline), [input], { signal: noSignal, parts });
    const [output] = await slowStep("Running the model", predicting);
    return JSON.parse(wholeText(pipeline.encoder.encode(output)));
  }

  /**
   * Runs the model's demo on one input.
   * @param write gets the demo's log lines as they appear
   */
  async demo(
    input: unknown,
    write: (text: string) => void,
    parts: PartsReceiver,
  ): Promise<{ output: unknown; demo_output: unknown }> {
    const { engine, pipeline } = await this.#running();
    const { outputs, demoOutputs } = await runDemo([input], {
      flow: new ItemFlow(engine, pipeline),
      pipeline,
      signal: noSignal,
      take() {},
      parts,
      write: (text) => {
        write(text);
        return true;
      },
    });
    return {
      output: JSON.parse(wholeText(outputs[0] ?? "null")),
      demo_output: JSON.parse(wholeText(demoOutputs[0] ?? "null")),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // An error of the set-up is ignored, because the caller of `predict` has got it already.
    const running = await this.#settingUp?.catch(() => undefined);
    await running?.close();
    await tearDown(this.#model);
    this.#fetcher[Symbol.dispose]();
  }

  #running(): Promise<RunningModel> {
    const { device, threads, batches } = this.#options;
    this.#settingUp ??= setUp({
      model: this.#model,
      pathOf: (name) => this.#packaged.layer(name).path,
      // The warm-up needs no example, because the real input runs at once.
      example: undefined,
      settings: {
        batchSize: batches ? undefined : 1,
        maxQueueDelayMs: 0,
        latencyTargetMs: Infinity,
        device,
        instances: 1,
        threads,
        maxInputs: undefined,
      },
      fetcher: this.#fetcher,
    });
    return this.#settingUp;
  }
}
