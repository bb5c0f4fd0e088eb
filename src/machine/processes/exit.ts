/** Keeps a model's code from ending the server process, which would fail the predictions of all clients. */

/** The original `process.exit`, which still ends the process after `forbidExit`. */
export const exitProcess: typeof process.exit = process.exit.bind(process);

/** Makes `process.exit` throw, so that a call fails one item and does not end the server. */
export function forbidExit(): void {
  process.exit = (code) => {
    throw new Error(
      `process.exit(${code ?? ""}) was called, but a model must not end the server: throw an error instead`,
    );
  };
}
