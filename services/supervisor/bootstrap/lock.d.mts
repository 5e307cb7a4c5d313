export function takeLock(path: string): (() => void) | undefined;
