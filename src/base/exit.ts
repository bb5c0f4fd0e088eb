/** Prevents a model's code from ending the server process, which would lose the predictions of all clients. */

/** The original `process.exit`. */
export const exitProcess: typeof process.exit = process.exit.bind(process);

/** Makes `process.exit` throw, so that only the item whose code calls it fails. */
export function forbidExit(): void {
  process.exit = (code) => {
    throw new Error(
      `process.exit(${code ?? ""}) was called, but a model must not end the server: throw an error instead`,
    );
  };
}
