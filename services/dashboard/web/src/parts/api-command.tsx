import { Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { readStored, writeStored } from '../lib/stored.ts';
import { useSession } from '../shell/session.ts';
import { CodeBlock } from './code-block.tsx';

const NAME = 'api-address';

interface ApiCommandProps {
  /** Writes the command for the API's address. */
  command: (api: string) => string;
  label: string;
}

/** Shows a command for the HTTP API. Without `PUBLIC_API_URL` the console guesses its address, which can be changed. */
export function ApiCommand(props: ApiCommandProps) {
  const { apiUrl } = useSession();
  if (apiUrl === undefined) return <WithAddress {...props} />;
  return <CodeBlock text={props.command(apiUrl)} label={props.label} copy="Copy the command" />;
}

function WithAddress({ command, label }: ApiCommandProps) {
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
        description="PUBLIC_API_URL of the console sets it for all operators"
        value={api}
        spellCheck={false}
        onChange={({ currentTarget }) => store(currentTarget.value)}
      />
      <CodeBlock text={command(api.replace(/\/+$/, ''))} label={label} copy="Copy the command" />
    </Stack>
  );
}
