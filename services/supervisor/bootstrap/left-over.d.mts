export function removeTraces(home: string): void;
