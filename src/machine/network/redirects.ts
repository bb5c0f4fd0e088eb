/** Statuses of answers that redirect to their `Location`. */
export const redirectStatuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
