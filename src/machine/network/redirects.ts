/** HTTP statuses that redirect to the URL in `Location`. */
export const redirectStatuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
