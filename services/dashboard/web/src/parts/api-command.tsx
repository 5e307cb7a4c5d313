import { Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { readStored, writeStored } from '../lib/stored.ts';
import { CodeBlock } from './code-block.tsx';

const NAME = 'api-address';

interface ApiCommandProps {
  /** Writes the command for the API's address. */
  command: (api: string) => string;
  label: string;
}

/** Shows a command for the HTTP API. The console does not know the API's public address, so it can be changed. */
export function ApiCommand({ command, label }: ApiCommandProps) {
  const [api, setApi] = useState(
    () => readStored(NAME) ?? `${location.protocol}//${location.hostname}`,
  );
  const store = (text: string): void => {
    setApi(text);
    writeStored(NAME, text);
  };
  return (
    <Stack gap="xs">
      <TextInput
        size="xs"
        label="Address of the HTTP API"
        value={api}
        spellCheck={false}
        onChange={({ currentTarget }) => store(currentTarget.value)}
      />
      <CodeBlock text={command(api.replace(/\/+$/, ''))} label={label} copy="Copy the command" />
    </Stack>
  );
}
