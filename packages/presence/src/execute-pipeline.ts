import type { Redis } from './redis.ts';

/** Sends the commands of a pipeline. Returns their results, in order. @throws the first error of a command */
export async function executePipeline(
  pipeline: Pick<ReturnType<Redis['pipeline']>, 'exec'>,
): Promise<unknown[]> {
  const results = (await pipeline.exec()) ?? [];
  return results.map(([error, result]) => {
    if (error) throw error;
    return result;
  });
}
