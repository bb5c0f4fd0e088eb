/**
 * The older server's side of an upgrade on one host: a newer server starts beside this one, and takes over its port and
 * its stores.
 */
import { version } from "../../package.json";
import { messageOf } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { startsNewer } from "../machine/processes/start-again.ts";
import {
  ControlSocket,
  controlPath,
  type HandoverLink,
  type HandoverMessage,
  networkOf,
  PROTOCOL,
} from "./control-socket.ts";
import { lossOf, type Offer, offerText } from "./offer.ts";
import { portSockets, type UpgradedFronts } from "./older-server.ts";
import type { Reload, StartedServer } from "./server-control.ts";

type Hello = Extract<HandoverMessage, { kind: "hello" }>;

const BUSY = "not ready for an upgrade; try again when its start, or the upgrade that runs, has ended";

/** The older server's side of an upgrade: lets newer servers take over from this one. */
export class Upgradable implements Disposable {
  readonly #fronts: UpgradedFronts;
  readonly #server: string;
  readonly #offer: Offer;
  readonly #stop: () => void;
  readonly #goOn: () => Promise<void>;
  readonly #startNewer: (() => StartedServer | undefined) | undefined;
  readonly #control: ControlSocket | undefined;
  #isBusy = true;
  #newer: HandoverLink | undefined;
  /** Resolves when a newer server has opened the port, or did not start. */
  #serving: Promise<unknown> = Promise.resolve();
  #onOutcome: (outcome: Reload) => void = () => {};

  /**
   * Serves upgrades once `open` is called.
   * @param options.stop finishes accepted work, and ends this server
   * @param options.goOn continues predictions of a newer server that has ended
   * @param options.startNewer starts a newer server; returns undefined if one starts already
   */
  constructor(
    place: { readonly host: string; readonly port: number },
    options: {
      fronts: UpgradedFronts;
      server: string;
      offer: Offer;
      stop: () => void;
      goOn: () => Promise<void>;
      startNewer?: (() => StartedServer | undefined) | undefined;
    },
  ) {
    this.#fronts = options.fronts;
    this.#server = options.server;
    this.#offer = options.offer;
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
      // Waits for the last message of the newer server, which may arrive after its exit.
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

  /** Tells the newer server that this server has ended. */
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
    const reason = this.#refusal(hello);
    if (reason !== undefined) {
      log.warn(`A newer server (process ${hello.pid}) with ${offerText(hello.offer)} does not take over: ${reason}`);
      link.send({ kind: "refused", reason });
      return link.end();
    }
    this.#isBusy = true;
    log.info(`A newer server (process ${hello.pid}) with ${offerText(hello.offer)} starts beside this one`);
    const { sockets, socketsPerFront } = this.#fronts;
    link.send({
      kind: "welcome",
      server: this.#server,
      fronts: [...sockets],
      socketsPerFront,
      offer: this.#offer,
    });
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
    await this.#retire(link, hello, answer);
  }

  /** Why this server refuses an upgrade; undefined if it allows the upgrade. */
  #refusal({ protocol, version: other, network, offer, replaces, starter }: Hello): string | undefined {
    if (protocol !== PROTOCOL)
      return `its sconce (${version}) and this one (${other}) know other upgrades; stop it first`;
    if (network !== networkOf()) return "the server that is known for it is in another network namespace";
    if (this.#isBusy) return `its server is ${BUSY}`;
    // This server started the newer server, so its operator has changed the list of models on purpose.
    if (replaces || startsNewer(starter)) return undefined;
    return lossOf(this.#offer, offer);
  }

  async #retire(
    link: HandoverLink,
    { offer }: Hello,
    { fronts, steered }: { readonly fronts: string[]; readonly steered: boolean },
  ): Promise<void> {
    log.info(
      `The newer server takes over: ${offerText(offer)} in place of ${offerText(this.#offer)}. This one finishes what it accepted`,
    );
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
    // An HTTP process that had closed the port may have opened it again, so all sockets get connections.
    await this.#fronts.steer({ first: 0, count: portSockets(this.#fronts) });
    this.#newer = undefined;
    await this.#goOn();
    await this.#control?.open();
    this.#isBusy = false;
  }
}
