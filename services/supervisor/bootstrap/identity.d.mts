export interface WrittenProcess {
  pid: number;
  started: string;
}
export function startOf(pid: number): string | undefined;
export function isAlive(process: WrittenProcess): boolean;
