/** What stays of predictions that have gone, once as many are kept as may be. */
import { join } from "node:path";
import { z } from "../src/model/z.ts";
import { atMost, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildNetwork, storeEnv } from "./networks.ts";
import { megabytes } from "./quantity.ts";
import { lost, Target } from "./target.ts";
import { spread } from "./turns.ts";

const PREDICTIONS = 200_000;
const WARM_UP = 50_000;
const GOAL_MB = 20;

export async function memory({ seconds, canary }: CaseOptions): Promise<Measurement> {
  const network = await buildNetwork("tiny");
  const script = join(import.meta.dir, "memory-server.ts");
  const command = [process.execPath, script, network.name, "--port", "0", "--host", "127.0.0.1", "--threads", "1"];
  await using served = await Target.start(command, storeEnv);
  const collect = async () => memorySchema.parse(await served.child.ask({}));
  const connections = 64;
  let failed = 0;
  let runs = 0;
  const predict = async (count: number) => {
    let answered = 0;
    while (answered < count) {
      const done = await served.load({ bodies: network.bodies, connections, seconds });
      answered += done.answered;
      failed += done.failed;
      runs += 1;
    }
    return answered;
  };
  await served.check(network);
  await predict(WARM_UP);
  await canary.listen();
  const begin = await collect();
  const count = await predict(PREDICTIONS);
  const end = await collect();
  const { failedPredictions } = await served.work();
  const value = (end.residentBytes - begin.residentBytes) / 1e6;
  return {
    subject: "memory of tiny",
    compared: `added by ${PREDICTIONS / 1000},000 predictions`,
    unit: "MB",
    goal: atMost(GOAL_MB),
    reached: spread([value]),
    values: [value],
    behind: [
      `${count} predictions`,
      `resident ${megabytes(begin.residentBytes)} to ${megabytes(end.residentBytes)}`,
      `heap ${megabytes(begin.heapBytes)} to ${megabytes(end.heapBytes)}`,
    ].join(", "),
    failed: failed + lost(failedPredictions, { runs, connections }),
    cores: canary.shares(),
  };
}

const memorySchema = z.object({ residentBytes: z.number(), heapBytes: z.number() });
