// The line of a job's use over time, as the path of an SVG.

/** Build the path of ratios of its own share in a box; a gap is unknown, and never bridged. */
export function buildUsePath(
  times: readonly number[],
  percents: readonly (number | null)[],
  box: { width: number; height: number; most: number },
): string {
  const first = times[0] ?? 0
  const span = Math.max(1, (times.at(-1) ?? first) - first)
  let path = ''
  let isOpen = false
  times.forEach((time, place) => {
    const percent = percents[place] ?? null
    if (percent === null) {
      isOpen = false
      return
    }
    const x = ((time - first) / span) * box.width
    const y = box.height - (Math.min(percent, box.most) / box.most) * box.height
    path += `${isOpen ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`
    isOpen = true
  })
  return path
}
