// The job that a request begins with as a copy.
import { queryOptions } from '@tanstack/react-query'
import { getJob, type Job } from '../../api/jobs'

/** Ask for the job once: a later answer would replace what the viewer has typed since. */
export const askSource = (job: string | undefined, read: (job: string) => Promise<Job> = getJob) =>
  queryOptions({
    queryKey: ['clone', job],
    queryFn: () => read(job ?? ''),
    enabled: Boolean(job),
    // Not even events that outdate everything make it ask again.
    staleTime: 'static',
    gcTime: 0,
  })
