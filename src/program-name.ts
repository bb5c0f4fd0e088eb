/** What people type to get here, for help and hints that they can paste; `scripts/sconce` says it of a checkout. */
export const programName = process.env.SCONCE_PROGRAM ?? "sconce";
