/**
 * A child process that terminates Workers while each calls a function of the addon with invalid arguments. Arguments:
 * the addon's path, and the function's name.
 */
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

if (isMainThread) {
  const [path = "", name = ""] = process.argv.slice(2);
  for (let i = 0; i < 10; i++) {
    const worker = new Worker(import.meta.filename, { workerData: { path, name } });
    await new Promise((resolve) => worker.once("message", resolve));
    await worker.terminate();
  }
  console.log("all are terminated");
} else {
  const module = { exports: {} };
  process.dlopen(module, workerData.path);
  const call: unknown = Reflect.get(module.exports, workerData.name);
  if (typeof call !== "function") throw new Error(`${workerData.path} has no ${workerData.name}`);
  parentPort?.postMessage("ready");
  for (;;) {
    try {
      call({}, {}, {});
    } catch {}
  }
}
