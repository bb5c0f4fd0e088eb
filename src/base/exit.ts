/** The end of a process that has a model's code in it, which is not for that code to decide: it would take everybody's predictions with it. */

/** As `process.exit`, also once a model's code is there. */
export const exitProcess: typeof process.exit = process.exit.bind(process);

/** Lets `process.exit` throw from now on: a model that calls it fails with what it was called for, and nobody else does. */
export function keepFromExit(): void {
  process.exit = (code) => {
    throw new Error(`process.exit(${code ?? ""}) was called, which ends no process of a server: throw an error`);
  };
}
