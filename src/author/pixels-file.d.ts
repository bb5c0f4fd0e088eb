/** The path of the native image addon; in a compiled executable, of its embedded file. */
declare module "#pixels" {
  const path: string;
  export default path;
}
