/** From the command to ready, as a user types it. */
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { atMost, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildModel, storeEnv } from "./networks.ts";
import { Target } from "./target.ts";
import { spread } from "./turns.ts";

const GOAL_S = 1.5;

export async function startUp({ repeats, canary }: CaseOptions): Promise<Measurement> {
  const model = "digits";
  await buildModel(join(root, "examples", model));
  const values: number[] = [];
  for (let i = 0; i < repeats; i++) {
    await canary.listen();
    const begin = performance.now();
    await using _ = await Target.start([join(root, "scripts", "sconce"), "serve", model, "--port", "0"], storeEnv);
    values.push((performance.now() - begin) / 1000);
  }
  return {
    subject: `serve ${model}`,
    compared: "from the command to ready",
    unit: "s",
    goal: atMost(GOAL_S),
    reached: spread(values),
    values,
    behind: "",
    failed: 0,
    cores: canary.shares(),
  };
}
