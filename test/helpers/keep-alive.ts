/**
 * Load by clients that keep their connections and by clients that do not. They obey `Connection: close`, as common
 * HTTP clients do.
 */
import { connect, type Socket } from "node:net";
import type { RunningCli } from "./cli.ts";
import type { PredictionBody } from "./client.ts";

/** A client with one connection at a time. It uses the connection again unless an answer says `Connection: close`. */
class Connection {
  readonly #port: number;
  #socket: Socket | undefined;

  constructor(port: number) {
    this.#port = port;
  }

  async post(path: string, body: string, { keeps }: { readonly keeps: boolean }): Promise<string> {
    const socket = this.#socket ?? this.#connect();
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    let text = "";
    const onData = (data: Buffer) => {
      text += data.toString("latin1");
      const [head = "", rest] = text.split("\r\n\r\n", 2);
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? Number.POSITIVE_INFINITY);
      if (rest === undefined || rest.length < length) return;
      if (!keeps || /\r\nconnection: close/i.test(head)) this.close();
      resolve(rest);
    };
    const onClose = () => reject(new Error(`the connection ended after ${text.length} bytes of the answer`));
    socket.on("data", onData);
    socket.once("close", onClose);
    socket.once("error", reject);
    const headers = [
      `POST ${path} HTTP/1.1`,
      "Host: 127.0.0.1",
      "Content-Type: application/json",
      "Prefer: wait",
      `Content-Length: ${Buffer.byteLength(body)}`,
      ...(keeps ? [] : ["Connection: close"]),
    ];
    socket.write(`${headers.join("\r\n")}\r\n\r\n${body}`);
    try {
      return await promise;
    } finally {
      socket.off("data", onData).off("close", onClose).off("error", reject);
    }
  }

  #connect(): Socket {
    const socket = connect(this.#port, "127.0.0.1");
    // The server may close the connection between two requests, which must not end the test.
    socket.on("error", () => {});
    this.#socket = socket;
    return socket;
  }

  close(): void {
    this.#socket?.end();
    this.#socket = undefined;
  }
}

export interface LoadOptions {
  readonly port: number;
  /** Number of clients that keep their connection. */
  readonly keeping: number;
  /** Number of clients that open a connection for each request. */
  readonly renewing: number;
  /**
   * Milliseconds that a client pauses after an answer, except during a takeover by a newer server; default: 0. The
   * newer server starts at low priority, so clients without pauses would delay its start.
   */
  readonly pauseMs?: number;
}

export class ConnectionLoad {
  readonly answers: {
    readonly x: number;
    readonly body: PredictionBody;
    readonly ms: number;
    readonly atMs: number;
  }[] = [];
  readonly failures: string[] = [];
  #isStopping = false;
  #pauseMs: number;
  readonly #clients: Promise<unknown>;

  constructor({ port, keeping, renewing, pauseMs = 0 }: LoadOptions) {
    this.#pauseMs = pauseMs;
    const clients = Array.from({ length: keeping + renewing }, (_, i) => this.#run(new Connection(port), i < keeping));
    this.#clients = Promise.all(clients);
  }

  get sent(): number {
    return this.answers.length + this.failures.length;
  }

  /** Sends without pauses from the takeover to the end of the older server. @returns the exit code of that server */
  async acrossTakeover(older: RunningCli): Promise<number> {
    const pauseMs = this.#pauseMs;
    await older.line("The newer server takes over");
    this.#pauseMs = 0;
    const code = await older.exited;
    this.#pauseMs = pauseMs;
    return code;
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#clients;
  }

  async #run(connection: Connection, keeps: boolean): Promise<void> {
    while (!this.#isStopping) {
      const x = this.sent % 400;
      const atMs = performance.now();
      try {
        const text = await connection.post("/predictions", JSON.stringify([{ x }]), { keeps });
        const body = JSON.parse(text) as PredictionBody;
        if (body.status !== "success") throw new Error(text);
        this.answers.push({ x, body, ms: performance.now() - atMs, atMs });
      } catch (error) {
        this.failures.push(`${keeps ? "kept" : "new"} connection: ${error}`);
        connection.close();
      }
      if (this.#pauseMs > 0) await Bun.sleep(this.#pauseMs);
    }
    connection.close();
  }
}
