import { Alert, Button, Group, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { RequestError } from '../api/request.ts';
import { CopyButton } from './copy-button.tsx';

/** Shows an error with its request id, by which an operator finds it in the log, and a way to try again. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const { title, text } = describeError(error);
  const requestId = error instanceof RequestError ? error.requestId : undefined;
  return (
    <Alert
      color="red"
      variant="outline"
      icon={<IconAlertTriangle aria-hidden />}
      title={title}
      role="alert"
      styles={{ title: { color: 'var(--mantine-color-error)' } }}
    >
      <Text fz="sm">{text}</Text>
      {requestId !== undefined && (
        <Group gap={4} mt={4} wrap="nowrap">
          <Text fz="xs" c="dimmed" className="wrap-anywhere">
            Request <span className="mono">{requestId}</span>
          </Text>
          <CopyButton text={requestId} label="Copy the request id" />
        </Group>
      )}
      {retry !== undefined && (
        <Button mt="sm" size="xs" variant="default" onClick={retry}>
          Try again
        </Button>
      )}
    </Alert>
  );
}

/** Returns the heading and the sentence for an error. */
export function describeError(error: unknown): { title: string; text: string } {
  if (!(error instanceof RequestError)) {
    const text = error instanceof Error ? error.message : String(error);
    return { title: 'This page has failed', text };
  }
  return {
    title: TITLES_OF_CODES[error.code] ?? TITLES[error.status] ?? 'The request has failed',
    text: error.message,
  };
}

const TITLES_OF_CODES: Record<string, string> = {
  ACCOUNT_SUSPENDED: 'The account is suspended',
  RATE_LIMIT_EXCEEDED: 'The account’s limit of requests is reached',
};

const TITLES: Record<number, string> = {
  0: 'No connection',
  400: 'The request is not valid',
  403: 'Your role does not allow this',
  404: 'Not found',
  409: 'Changed in the meantime',
  429: 'Too many attempts',
  503: 'Not available at the moment',
};
