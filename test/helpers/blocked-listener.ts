/** Listens on the port of the first argument with two sockets. Then the main thread blocks for ever. */
import { Listener } from "../../src/server/http/listener.ts";
import { LiveThread } from "../../src/server/http/live-thread.ts";

const options = { host: "127.0.0.1", port: Number(process.argv[2]), idleTimeout: 60, isShared: true, portSockets: 2 };
const listener = new Listener(options, () => new Response("from the main thread"));
new LiveThread(listener.port);
console.log("blocked");
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
