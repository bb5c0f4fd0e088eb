/**
 * An engine process whose runner doubles numbers; the number -9 ends the process. The argument is the path of its
 * socket.
 */

import type { Tensor } from "../../src/author/tensor.ts";
import { EngineServer } from "../../src/engine/remote/engine-server.ts";
import { DoublingRunner, info, one } from "./remote.ts";

class DeadlyRunner extends DoublingRunner {
  override run(items: readonly (readonly Tensor[])[]): Promise<readonly Tensor[]> {
    if (items.some(([x]) => x?.data[0] === -9)) process.kill(process.pid, "SIGKILL");
    return super.run(items);
  }
}

const [path = ""] = process.argv.slice(2);
const server = new EngineServer({ ...one, info, runners: [new DeadlyRunner()], maxBatchSize: 1, maxQueueDelayMs: 0 });
server.listen(path);
process.send?.("listening");
