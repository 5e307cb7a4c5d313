export const SCATTERED_STATEMENTS: Readonly<Record<string, { runs: string; statements: string[] }>> = {};
