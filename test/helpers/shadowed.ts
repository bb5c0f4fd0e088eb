/**
 * Builds of a model `ten` for tests of shadows, which are builds that get copies of requests, and the counts of
 * compared predictions.
 */
import type { Client } from "./client.ts";
import { modelText } from "./model-text.ts";
import type { TempDir } from "./temp-dir.ts";
import { buildVersion } from "./versions.ts";

/** The second output is an array, so that answers of the Open Inference Protocol have binary tensors. */
const list = `({ y }) => ({ y: y.data[0], list: tensor(Float32Array.of(y.data[0], 1000), [2]) })`;
const output = "z.object({ y: z.number(), list: ndarray(float32(2)) })";

const builds = {
  v1: { postprocess: list },
  // Version v3: as v1, but another build.
  v3: { postprocess: `/* another build */ ${list}` },
  // Version v2: outputs of small inputs differ from v1 by rounding, outputs of large inputs by more. Inputs below 0
  // fail.
  v2: {
    postprocess: `({ y }) => {
      const factor = y.data[0] < 50 ? 1.001 : 2;
      return { y: factor * y.data[0], list: tensor(Float32Array.of(factor * y.data[0], 1001.5), [2]) };
    }`,
    preprocess: `async ({ x }) => {
      // x = 1 is the model's example, which runs at the start and must not wait.
      if (process.env.GATE !== undefined && x !== 1) await fetch(process.env.GATE);
      if (x < 0) throw new Error("v2 takes no number below 0");
      return { x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) };
    }`,
  },
};

/** Builds `ten:v1`, `ten:v2` and `ten:v3`. */
export async function buildShadowed(dir: TempDir, env: Readonly<Record<string, string>>): Promise<void> {
  for (const [tag, change] of Object.entries(builds)) {
    const text = modelText({ name: '"ten"', output, ...change }).replace("image, pad", "image, ndarray, pad");
    await buildVersion(dir, text, tag, env);
  }
}

/** Numbers of predictions that the server has copied to the shadow `ten:v2`, by their result. */
export const countsOf = async (client: Client) => {
  const of = (result: string) => client.metric(`sconce_shadow_predictions_total{model="ten:v2",result="${result}"}`);
  const [equal, different, failed, dropped] = await Promise.all(["equal", "different", "failed", "dropped"].map(of));
  return { equal, different, failed, dropped };
};
