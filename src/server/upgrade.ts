/**
 * Upgrades on one host: a newer server starts beside the older server of its port, and takes over the port and the
 * store.
 */
import { version } from "../../package.json";
import { messageOf, SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import {
  ControlSocket,
  connectTo,
  controlPath,
  type HandoverLink,
  type HandoverMessage,
  networkOf,
  PROTOCOL,
} from "./control-socket.ts";
import type { Relative } from "./messages.ts";
import type { Reload, StartedServer } from "./server-control.ts";

/** The functions of a server's fronts (HTTP processes) that an upgrade calls. */
export interface UpgradedFronts {
  /** Unix sockets of the fronts, by index. */
  readonly sockets: readonly string[];
  /** Number of sockets with which each front listens on the port. */
  readonly socketsPerFront: number;
  /**
   * Makes the system send new connections only to some sockets of the port: `count` sockets from index `first` on.
   * @returns whether the system can do so
   */
  steer(sockets: { readonly first: number; readonly count: number }): Promise<boolean>;
  /**
   * With true, the fronts close each connection after its next answer; with false, they keep connections open again.
   */
  retire(isRetiring: boolean): void;
  /**
   * Closes the port in one front after another, from the last on, each when it has no connections. `onClosed` gets the
   * count of fronts that are still open; with several fronts, it is also called before the first one closes.
   */
  closePorts(onClosed: (open: number) => Promise<void>): Promise<void>;
  /** Sets the other server of the upgrade; undefined removes it. */
  setOther(other: Relative | undefined): void;
}

interface Place {
  readonly host: string;
  readonly port: number;
}

type Welcome = Extract<HandoverMessage, { kind: "welcome" }>;

/** The older server of the port, from the side of the newer server. */
export class OlderServer {
  readonly #link: HandoverLink;
  readonly relative: Relative;
  readonly #socketsPerFront: number;
  /** Name of the newer server in the stores of predictions. */
  readonly nextServer: string;

  private constructor(link: HandoverLink, { server, fronts, socketsPerFront }: Welcome) {
    this.#link = link;
    this.relative = { sockets: fronts };
    this.#socketsPerFront = socketsPerFront;
    this.nextServer = String(Number(server) + 1);
  }

  /**
   * Finds the server that has the port.
   * @returns undefined if no server of this user has it
   * @throws SconceError `address_in_use` if the server refuses an upgrade
   */
  static async find(place: Place): Promise<OlderServer | undefined> {
    const path = controlPath(place);
    const link = path === undefined ? undefined : await connectTo(path);
    if (link === undefined) return undefined;
    link.send({ kind: "hello", protocol: PROTOCOL, version, pid: process.pid, network: networkOf() });
    const answer = await link.next();
    if (answer?.kind === "welcome") return new OlderServer(link, answer);
    link.end();
    if (answer?.kind !== "refused") return undefined;
    throw new SconceError("address_in_use", `port ${place.port} of ${place.host} is in use: ${answer.reason}`);
  }

  /** Resolves when the older server's process has ended. */
  get ended(): Promise<void> {
    return this.#link.closed;
  }

  /** Reports that the newer server does not start. */
  fail(reason: string): void {
    this.#link.send({ kind: "failed", reason });
    this.#link.end();
  }

  /** Takes over the open port. Resolves when the older server has left the control socket, or has ended. */
  async takeOver(fronts: UpgradedFronts): Promise<void> {
    const count = portSockets(fronts);
    const steered = await fronts.steer({ first: this.portSockets, count });
    if (!steered)
      log.warn("The system does not steer connections: a few may be refused while the older server closes the port");
    this.#link.send({ kind: "opened", fronts: [...fronts.sockets], steered });
    for (let message = await this.#link.next(); message !== undefined; message = await this.#link.next()) {
      if (message.kind === "left") break;
    }
    void this.#follow(fronts);
  }

  async #follow(fronts: UpgradedFronts): Promise<void> {
    const count = portSockets(fronts);
    for (let message = await this.#link.next(); message !== undefined; message = await this.#link.next()) {
      if (message.kind !== "closed") continue;
      await fronts.steer(this.#socketsWhileClosing(message.open, count));
      this.#link.send({ kind: "steered" });
    }
    await fronts.steer({ first: 0, count });
  }

  /** Number of sockets with which the older server listens on the port. The newer server needs at least this number. */
  get portSockets(): number {
    return this.relative.sockets.length * this.#socketsPerFront;
  }

  /**
   * The sockets for new connections while `open` fronts of the older server listen. The kernel moves the last socket to
   * the place of a closed one, and the order of the older sockets is unknown. All places behind them have sockets of
   * the newer server. The last places are left out, because the next front that closes the port empties them.
   */
  #socketsWhileClosing(open: number, count: number): { first: number; count: number } {
    if (open === 0) return { first: 0, count };
    const first = this.portSockets;
    return { first, count: Math.max(1, (open - 1) * this.#socketsPerFront + count - first) };
  }
}

/** Number of a server's sockets that listen on the port. */
function portSockets({ sockets, socketsPerFront }: UpgradedFronts): number {
  return sockets.length * socketsPerFront;
}

const BUSY = "not ready for an upgrade; try again when its start, or the upgrade that runs, has ended";

/** The older server's side of an upgrade: lets newer servers take over from this one. */
export class Upgradable implements Disposable {
  readonly #fronts: UpgradedFronts;
  readonly #server: string;
  readonly #stop: () => void;
  readonly #goOn: () => Promise<void>;
  readonly #startNewer: (() => StartedServer | undefined) | undefined;
  readonly #control: ControlSocket | undefined;
  #isBusy = true;
  /** The connection to the newer server that takes over. */
  #newer: HandoverLink | undefined;
  /** Resolves when a newer server has opened the port, or did not start. */
  #serving: Promise<unknown> = Promise.resolve();
  #onOutcome: (outcome: Reload) => void = () => {};

  /**
   * @param options.stop finishes accepted work, and ends this server
   * @param options.goOn continues predictions of a newer server that has ended
   * @param options.startNewer starts a newer server; returns undefined if one starts already
   */
  constructor(
    place: Place,
    options: {
      fronts: UpgradedFronts;
      server: string;
      stop: () => void;
      goOn: () => Promise<void>;
      startNewer?: (() => StartedServer | undefined) | undefined;
    },
  ) {
    this.#fronts = options.fronts;
    this.#server = options.server;
    this.#stop = options.stop;
    this.#goOn = options.goOn;
    this.#startNewer = options.startNewer;
    const path = controlPath(place);
    this.#control = path === undefined ? undefined : new ControlSocket(path, (link) => void this.#serve(link));
  }

  async open(): Promise<void> {
    await this.#control?.open();
  }

  /** Starts a newer server. Resolves when it has taken over or has ended, at the latest after `waitMs`. */
  async reload(waitMs: number): Promise<Reload> {
    if (this.#startNewer === undefined) return { refused: "a server with --port 0 cannot be upgraded in place" };
    let newer: StartedServer | undefined;
    try {
      newer = this.#isBusy ? undefined : this.#startNewer();
    } catch (error) {
      return { failed: `it cannot be started: ${messageOf(error)}` };
    }
    if (newer === undefined) return { refused: `the server is ${BUSY}` };
    const { pid, exited } = newer;
    const outcome = Promise.withResolvers<Reload>();
    const failure = Promise.withResolvers<Reload>();
    let isKnown = false;
    this.#onOutcome = (found) => {
      isKnown = true;
      ("failed" in found && exited !== undefined ? failure : outcome).resolve(found);
    };
    // The answer waits for the exit of a server that failed: only then may another one start.
    void exited?.then(async (code) => {
      // The last message of the newer server may still be on its way.
      await this.#serving;
      const ended = `it ended with ${code} before it was ready`;
      if (!isKnown) log.error(`The newer server did not start, and this one goes on: ${ended}`);
      failure.resolve({ failed: `${ended}, and the log has its error` });
      outcome.resolve(failure.promise);
    });
    const waited = Bun.sleep(waitMs).then((): Reload => ({ pid, isReady: false }));
    return Promise.race([outcome.promise, waited]);
  }

  /** Allows an upgrade: this server is ready, and its older server has ended. */
  allow(): void {
    this.#isBusy = false;
  }

  /** Tells the newer server that this one has ended. */
  end(): void {
    this.#newer?.end();
  }

  [Symbol.dispose](): void {
    this.#isBusy = true;
    this.#control?.close();
  }

  async #serve(link: HandoverLink): Promise<void> {
    const hello = await link.next();
    if (hello?.kind !== "hello") return link.end();
    const reason =
      hello.protocol !== PROTOCOL
        ? `its sconce (${version}) and this one (${hello.version}) know other upgrades; stop it first`
        : hello.network !== networkOf()
          ? "the server that is known for it is in another network namespace"
          : this.#isBusy
            ? `its server is ${BUSY}`
            : undefined;
    if (reason !== undefined) {
      link.send({ kind: "refused", reason });
      return link.end();
    }
    this.#isBusy = true;
    log.info(`A newer server (process ${hello.pid}) starts beside this one`);
    const { sockets, socketsPerFront } = this.#fronts;
    link.send({ kind: "welcome", server: this.#server, fronts: [...sockets], socketsPerFront });
    const next = link.next();
    this.#serving = next;
    const answer = await next;
    if (answer?.kind !== "opened") {
      const why = answer?.kind === "failed" ? answer.reason : "it ended before it was ready";
      this.#onOutcome({ failed: why });
      log.error(`The newer server did not start, and this one goes on: ${why}`);
      this.#isBusy = false;
      return;
    }
    this.#onOutcome({ pid: hello.pid, isReady: true });
    await this.#retire(link, answer);
  }

  async #retire(link: HandoverLink, { fronts, steered }: { readonly fronts: string[]; readonly steered: boolean }) {
    log.info("The newer server takes over: this one finishes what it accepted");
    this.#newer = link;
    this.#fronts.setOther({ sockets: fronts });
    this.#fronts.retire(true);
    this.#control?.close();
    link.send({ kind: "left" });
    let hasEnded = false;
    const ended = link.closed.then(() => {
      hasEnded = true;
    });
    const closing = steered
      ? this.#fronts.closePorts(async (open) => {
          link.send({ kind: "closed", open });
          await Promise.race([link.next(), ended]);
        })
      : Promise.resolve();
    await Promise.race([closing, ended]);
    if (!hasEnded) return this.#stop();
    log.error("The newer server has ended: this one goes on");
    this.#fronts.retire(false);
    // The port may be open again in a front that had closed it.
    await this.#fronts.steer({ first: 0, count: portSockets(this.#fronts) });
    this.#newer = undefined;
    await this.#goOn();
    await this.#control?.open();
    this.#isBusy = false;
  }
}
