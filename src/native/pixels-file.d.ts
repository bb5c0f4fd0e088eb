/** The file of the addon for pictures, which in a compiled executable lies inside it. */
declare module "#pixels" {
  const path: string;
  export default path;
}
