/** Numbers with their units, as the table writes them. */

export const perSecond = (value: number) =>
  `${(value < 100 ? Number(value.toPrecision(3)) : Math.round(value)).toLocaleString("en")}/s`;
export const ms = (value: number) =>
  value < 1000 ? `${value.toPrecision(value < 1 ? 2 : 3)} ms` : `${(value / 1000).toPrecision(3)} s`;
export const megabytes = (value: number) => `${(value / 1e6).toFixed(1)} MB`;
