// A file that the server makes: what it refuses is said here, not saved as a file.
import { Button } from '@mantine/core'
import { IconDownload } from '@tabler/icons-react'
import { useMutation } from '@tanstack/react-query'
import { SEAL } from '../api/client'
import { readProblem } from '../api/problem'

interface Made {
  readonly name: string
  readonly content: Blob
}

/** Ask for a file. Blocks until all of it is here. */
async function fetchFile(path: string, fallback: string): Promise<Made> {
  const response = await fetch(path, { credentials: 'same-origin', headers: SEAL })
  if (!response.ok) throw await readProblem(response)
  const name = /filename="([^"]+)"/.exec(response.headers.get('Content-Disposition') ?? '')?.[1]
  return { name: name ?? fallback, content: await response.blob() }
}

function saveFile({ name, content }: Made): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  // The browser has opened it by then; a link that is never revoked keeps the file in memory.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

interface DownloadProps {
  readonly label: string
  readonly path: string
  readonly name: string
  onRefused(error: unknown): void
}

export function Download({ label, path, name, onRefused }: DownloadProps) {
  const get = useMutation({
    mutationFn: () => fetchFile(path, name),
    onMutate: () => onRefused(null),
    onSuccess: saveFile,
    onError: onRefused,
  })
  return (
    <Button
      size="xs"
      variant="default"
      leftSection={<IconDownload size={14} aria-hidden />}
      loading={get.isPending}
      onClick={() => get.mutate()}
    >
      {label}
    </Button>
  )
}
