/** What people type to get here, for help and hints that they can paste; `scripts/sconce` says it of a checkout. */

/** `bun run` and `bunx` put a project's own commands on the PATH for the time they run, and no longer. */
const isOfProject = Bun.which("sconce")?.includes("/node_modules/.bin/") === true;

export const programName = process.env.SCONCE_PROGRAM ?? (isOfProject ? "bunx sconce" : "sconce");
