/** A peer that serves a network: started in a process group of its own, its answers checked before anything is timed. */
import { readFileSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "../../src/model/z.ts";
import { areClose } from "../alike.ts";
import { type Load, type LoadOptions, load } from "../load.ts";
import type { Network } from "../networks.ts";
import { environment, peersFolder, pinnedVersion } from "./environment.ts";
import { type Peer, type PeerName, peers } from "./peers.ts";
import { ProcessGroup } from "./process-group.ts";

/** What the peer's network has done. */
export interface PeerWork {
  readonly batches: number;
  readonly items: number;
}

interface Running {
  readonly fullTitle: string;
  readonly network: Pick<Network, "samples">;
  readonly group: ProcessGroup;
  readonly url: string;
  readonly files: { readonly bodies: string; readonly counts: string };
}

const START_MS = 120_000;
const ANSWER_MS = 60_000;
const POLL_MS = 20;

const inputsSchema = z.array(z.object({ x: z.array(z.number()) }));
const createdSchema = z.looseObject({ prediction_id: z.string() });
const stateSchema = z.looseObject({ status: z.enum(["pending", "running", "success"]) });

export class RunningPeer implements AsyncDisposable {
  readonly title: string;
  /** With its version. */
  readonly fullTitle: string;
  readonly #peer: Peer;
  readonly #running: Running;

  private constructor(peer: Peer, running: Running) {
    this.title = peer.title;
    this.fullTitle = running.fullTitle;
    this.#peer = peer;
    this.#running = running;
  }

  /** Installs it where that is to be done, and resolves when it has given the right answers. */
  static async start(name: PeerName, network: Pick<Network, "folder" | "inputs" | "samples" | "name">) {
    const peer: Peer = peers[name];
    const { python, libraries } = await environment(peer.environment, peer);
    const [port = 0, otherPort = 0] = freePorts(2);
    const folder = join(peersFolder, "runs");
    const home = join(folder, "home");
    await mkdir(home, { recursive: true });
    const fileOf = (ending: string) => join(folder, `${name}-${network.name}.${ending}`);
    const files = { bodies: fileOf("bodies.txt"), counts: fileOf("counts.bin") };
    const inputs = inputsSchema.parse(await Bun.file(network.inputs).json());
    writeFileSync(files.bodies, `${inputs.map(({ x }) => JSON.stringify(peer.body(x))).join("\n")}\n`);
    writeFileSync(files.counts, new Uint8Array(16));
    const group = new ProcessGroup({
      command: [python, ...peer.arguments(port)],
      cwd: import.meta.dir,
      log: fileOf("log"),
      env: {
        ...peer.env,
        PEER_PORT: String(port),
        PEER_OTHER_PORT: String(otherPort),
        PEER_WEIGHTS: join(network.folder, "weights.pt"),
        PEER_COUNTS: files.counts,
        PYTHONPATH: "",
        PYTHONDONTWRITEBYTECODE: "1",
        OMP_NUM_THREADS: "1",
        PYTRITON_HOME: home,
        ...(peer.needsSharedPython ? { LD_LIBRARY_PATH: libraries } : {}),
      },
    });
    const fullTitle = peer.fullTitle(pinnedVersion(peer.environment, peer.distribution));
    const url = `http://127.0.0.1:${port}${peer.path}`;
    const running = new RunningPeer(peer, { fullTitle, network, group, url, files });
    try {
      await running.#ready();
      await running.check();
    } catch (error) {
      await group[Symbol.asyncDispose]();
      throw error;
    }
    return running;
  }

  /** @throws Error when it does not give the samples' outputs for their inputs, each in a request */
  async check(): Promise<void> {
    const { inputs, outputs } = this.#running.network.samples;
    for (const [i, { x }] of inputsSchema.parse(inputs).entries()) {
      const given = await this.#ask(x);
      const { y = [] } = outputs[i] ?? {};
      if (!areClose(given, y))
        throw new Error(`${this.title} answered wrongly: ${JSON.stringify({ given, expected: y })}`);
    }
  }

  /** @throws Error when requests fail: what is left of such a load compares with nothing */
  async load(options: Pick<LoadOptions, "connections" | "seconds">): Promise<Load> {
    const { url, files, group } = this.#running;
    const done = await load({ ...options, url, way: this.#peer.way, bodies: files.bodies });
    if (done.failed > 0) throw group.failure(`answered ${done.failed} requests with an error or not at all`);
    return done;
  }

  work(): PeerWork {
    const counts = new BigUint64Array(readFileSync(this.#running.files.counts).buffer, 0, 2);
    return { batches: Number(counts[0]), items: Number(counts[1]) };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#running.group[Symbol.asyncDispose]();
  }

  /** Until it answers, be the answer right or wrong. */
  async #ready(): Promise<void> {
    const { network, group } = this.#running;
    const [first = { x: [] }] = inputsSchema.parse(network.samples.inputs);
    const end = performance.now() + START_MS;
    for (;;) {
      try {
        await this.#ask(first.x);
        return;
      } catch (error) {
        if (group.hasEnded) throw group.failure("ended");
        if (performance.now() > end)
          throw group.failure(`gave no answer within ${START_MS / 1000} s (${String(error)})`);
        await Bun.sleep(200);
      }
    }
  }

  async #ask(x: readonly number[]): Promise<readonly number[]> {
    const { way, body, answer } = this.#peer;
    const created = await fetchJson(this.#running.url, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body(x)),
    });
    if (way === "wait") return answer.parse(created);
    const { prediction_id: id } = createdSchema.parse(created);
    for (;;) {
      const state = await fetchJson(`${this.#running.url}/${id}`, {});
      if (stateSchema.parse(state).status === "success") return answer.parse(state);
      await Bun.sleep(POLL_MS);
    }
  }
}

async function fetchJson(url: string, options: RequestInit): Promise<unknown> {
  const response = await fetch(url, { ...options, signal: AbortSignal.timeout(ANSWER_MS) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status}: ${text.slice(0, 500)}`);
  return JSON.parse(text);
}

/** Ports that nobody listened on a moment ago; the peers take no 0. */
function freePorts(count: number): number[] {
  const held = Array.from({ length: count }, () =>
    Bun.listen({ port: 0, hostname: "127.0.0.1", socket: { data() {} } }),
  );
  const ports = held.map(({ port }) => port);
  for (const listener of held) listener.stop(true);
  return ports;
}
