import { type QueryKey, useMutation, useQueryClient } from '@tanstack/react-query';
import { tellDone, tellError } from '../parts/confirm.tsx';
import { handleError } from './query-client.ts';

interface ChangeOptions<Input, Output> {
  run: (input: Input) => Promise<Output>;
  /** Queries that are out of date afterwards. */
  outdated?: readonly QueryKey[];
  /** Sentence for success. */
  done?: string;
  onDone?: (output: Output) => void;
}

/** Runs a change: reports its end, reads the changed data again, and shows an error with its request id. */
export function useChange<Input = void, Output = unknown>({
  run,
  outdated = [],
  done,
  onDone,
}: ChangeOptions<Input, Output>) {
  const client = useQueryClient();
  return useMutation<Output, unknown, Input>({
    mutationFn: run,
    onSuccess: (output) => {
      for (const queryKey of outdated) client.invalidateQueries({ queryKey });
      if (done !== undefined) tellDone(done);
      onDone?.(output);
    },
    onError: (error) => {
      handleError(error);
      tellError(error);
    },
  });
}
