/** Types of imports that give a file's path. In a compiled executable, the path points into the executable. */
declare module "#swagger-ui/*" {
  const path: string;
  export default path;
}
declare module "#page/*" {
  const path: string;
  export default path;
}
