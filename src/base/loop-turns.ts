/** Reads bodies on the event loop, a few milliseconds a turn. Bodies that arrive together would otherwise hold it for seconds. */
import { LoopWork } from "./loop-work.ts";

/** Smaller bodies need no turn: a promise would cost more than their parsing. */
export const TURN_BYTES = 16 * 1024;

/** The bodies of all models of this process share its event loop. */
const work = new LoopWork();

/** Runs work now, or in a later turn of the event loop if other bodies have used this one. */
export function inTurn<T>(run: () => T): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const piece = () => {
    try {
      resolve(run());
    } catch (error) {
      reject(error);
    }
  };
  if (work.isOpen) {
    const beganMs = performance.now();
    piece();
    work.took(performance.now() - beganMs);
  } else work.add(piece);
  return promise;
}
